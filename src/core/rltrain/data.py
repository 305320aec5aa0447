"""Data as bytes that run no code when they are read: messages between ranks, and ranks' states."""

from rltrain_files.data import pack_object, pack_state, unpack_object, unpack_state
from rltrain_files.numbers import NARROW, MalformedData, check_generator, narrow_dtype

__all__ = [
    "NARROW",
    "MalformedData",
    "check_generator",
    "narrow_dtype",
    "pack_object",
    "pack_state",
    "unpack_object",
    "unpack_state",
]
