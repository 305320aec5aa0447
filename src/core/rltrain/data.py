"""Data as bytes that run no code when they are read: messages between ranks, and ranks' states."""

from rltrain.files.bounds import (
    MOST,
    NARROW,
    MalformedData,
    check_generator,
    check_tree,
    narrow_dtype,
    parse_json,
)
from rltrain.files.data import pack_object, pack_state, unpack_object, unpack_state

__all__ = [
    "MOST",
    "NARROW",
    "MalformedData",
    "check_generator",
    "check_tree",
    "narrow_dtype",
    "pack_object",
    "pack_state",
    "parse_json",
    "unpack_object",
    "unpack_state",
]
