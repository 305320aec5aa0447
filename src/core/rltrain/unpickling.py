"""Pickled data can run code where it is read: only whom the user trusts is read so."""

from rltrain.files.bounds import UnsafePickle, load_trusted, would_run_code

__all__ = ["UnsafePickle", "load_trusted", "would_run_code"]
