"""The jax side. Importing any of its modules imports skrl, without starting a process group."""

from rltrain_skrl.run import bootstrap

bootstrap.import_skrl()
