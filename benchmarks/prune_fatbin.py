"""Shrinks a CUDA library for one kind of GPU: zeros the device code of all others.

Then it compresses well.

    python benchmarks/prune_fatbin.py libnccl.so.2 90 pruned/libnccl.so.2

The CUDA driver takes the entry of a fat binary that fits its GPU and never looks into the others.
The file keeps its length and every offset.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator
from pathlib import Path

MAGIC, ENTRY = 0xBA55ED50, struct.Struct("<HHIQIIHHI")
CODE = 2
"""The kind of an entry that holds a GPU's own code, and no PTX."""


def sections(data: bytearray, name: bytes) -> Iterator[tuple[int, int]]:
    """Yield offset and size of the ELF sections of that name."""
    (table,) = struct.unpack_from("<Q", data, 0x28)
    size, count, names = struct.unpack_from("<HHH", data, 0x3A)
    (strings,) = struct.unpack_from("<Q", data, table + names * size + 0x18)
    for index in range(count):
        at = table + index * size
        start = strings + struct.unpack_from("<I", data, at)[0]
        if data[start : data.index(b"\0", start)] == name:
            yield struct.unpack_from("<QQ", data, at + 0x18)  # type: ignore[misc]


def prune(data: bytearray, keep: int) -> tuple[int, dict[int, int]]:
    """Zero the code of other GPUs; return bytes kept, and bytes zeroed by architecture."""
    kept, zeroed = 0, dict[int, int]()
    for offset, size in [*sections(data, b".nv_fatbin"), *sections(data, b"__nv_relfatbin")]:
        at, end = offset, offset + size
        while at + 16 <= end:
            magic, _, header, length = struct.unpack_from("<IHHQ", data, at)
            if magic != MAGIC:
                at += 8
                continue
            entry, stop = at + header, at + header + length
            while entry + ENTRY.size <= stop:
                kind, _, head, payload, _, _, _, _, arch = ENTRY.unpack_from(data, entry)
                if arch == keep and kind == CODE:
                    kept += payload
                else:
                    zeroed[arch] = zeroed.get(arch, 0) + payload
                    data[entry + head : entry + head + payload] = bytes(payload)
                entry += head + payload
            at = stop
    return kept, zeroed


def main(source: str, arch: str, target: str) -> None:
    """Write the smaller library."""
    data = bytearray(Path(source).read_bytes())
    kept, zeroed = prune(data, int(arch))
    if not kept:
        sys.exit(f"{source} has no code for sm_{arch}; it has sm_{sorted(zeroed)}.")
    Path(target).write_bytes(data)
    print(f"kept {kept / 1e6:.0f} MB, zeroed {sum(zeroed.values()) / 1e6:.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
