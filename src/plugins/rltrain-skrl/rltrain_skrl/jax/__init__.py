"""The jax side. Importing any module of it imports skrl, without its starting a process group."""

from __future__ import annotations

from rltrain_skrl import bootstrap

bootstrap.import_skrl()
