"""The jax side. Importing any of its modules imports skrl, without starting a process group."""

from __future__ import annotations

from rltrain_skrl import bootstrap

bootstrap.import_skrl()
