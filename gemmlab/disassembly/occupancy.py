"""What a kernel takes on an NVIDIA GPU, read from its machine code, and how many work-groups a multiprocessor holds."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

WARP = 32
REGISTERS = 65536  # of a multiprocessor
RESERVED = 1024  # bytes of local memory of each work-group that the system keeps, from compute capability 8.0 on
# Warps and work-groups of a multiprocessor and its KB of local memory, by compute capability: the CUDA programming
# guide's table of technical specifications.
LIMITS = {
    70: (64, 32, 96), 75: (32, 16, 64), 80: (64, 32, 164), 86: (48, 16, 100), 87: (48, 16, 164), 89: (48, 24, 100),
    90: (64, 32, 228), 100: (64, 32, 228), 103: (64, 32, 228), 120: (48, 24, 100), 121: (48, 24, 100),
}  # fmt: skip
# In the section .nv.info of a cubin: attributes with a value for a function.
WITH_VALUE, REGISTER_COUNT, FRAME_SIZE = 4, 0x2F, 0x11


@dataclass(frozen=True)
class Resources:
    """Registers of a work-item, bytes of its stack (spilled registers and arrays), local bytes of a work-group."""

    registers: int
    stack_bytes: int
    local_bytes: int


@dataclass(frozen=True)
class Occupancy:
    """Work-groups and warps that a multiprocessor holds, of so many warps at most, and what limits them."""

    groups: int
    warps: int
    most_warps: int
    limit: str


def resources_of(code: bytes, ptx: str) -> Resources:
    """What the only kernel of a cubin takes; the PTX says what it has in local memory."""
    values = {attribute: value for section in _sections(code, ".nv.info") for attribute, value in _attributes(section)}
    local = sum(map(int, re.findall(r"^\s*\.shared .*?\[(\d+)\];", ptx, re.MULTILINE)))
    return Resources(values[REGISTER_COUNT], values.get(FRAME_SIZE, 0), local)


def occupancy_of(resources: Resources, group: int, capability: int) -> Occupancy | None:
    """The occupancy by work-groups of so many work-items; None for an architecture that the table does not have.

    Examples
    --------
    >>> occupancy_of(Resources(128, 0, 0), 256, 90)
    Occupancy(groups=2, warps=16, most_warps=64, limit='registers')
    """
    if capability not in LIMITS:
        return None
    most_warps, most_groups, local_kb = LIMITS[capability]
    warps = -(-group // WARP)
    a_warp = -(-resources.registers * WARP // 256) * 256  # registers are given out in pieces of 256,
    fit = REGISTERS // a_warp // 4 * 4  # and each quarter of a multiprocessor has as many
    local = -(-(resources.local_bytes + (RESERVED if capability >= 80 else 0)) // 128) * 128
    found = {
        "warps": most_warps // warps, "registers": fit // warps, "work-groups": most_groups,
        "local memory": local_kb * 1024 // local if local else most_groups,
    }  # fmt: skip
    limit = min(found, key=lambda name: found[name])
    return Occupancy(found[limit], found[limit] * warps, most_warps, limit)


def _sections(code: bytes, wanted: str) -> Iterator[bytes]:
    """The sections of a name of a 64-bit ELF file."""
    (start,), (size, count, names) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<3H", code, 58)
    headers = [struct.unpack_from("<IIQQQQ", code, start + i * size) for i in range(count)]
    texts = headers[names][4]
    for name, _, _, _, offset, nbytes in headers:
        end = code.index(b"\0", texts + name)
        if code[texts + name : end].decode() == wanted:
            yield code[offset : offset + nbytes]


def _attributes(section: bytes) -> Iterator[tuple[int, int]]:
    """The attributes with a function and a value."""
    at = 0
    while at + 4 <= len(section):
        form, attribute, size = struct.unpack_from("<BBH", section, at)
        at += 4
        if form == WITH_VALUE:
            if size == 8:
                yield attribute, struct.unpack_from("<II", section, at)[1]
            at += size
