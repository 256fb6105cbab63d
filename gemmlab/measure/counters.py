"""Bytes that memory really moved, where its controllers can be asked: hardware counters, through Linux' perf events.

Intel's integrated memory controllers (`uncore_imc`) and AMD's (`amd_umc`) count the commands that read or write a line
of 64 bytes. Linux describes them in a folder each, with the events, where their bits go, and the factor to bytes. They
count for the whole machine, so another program's traffic is in them too; reading them needs root, or
`kernel.perf_event_paranoid` at 0 or below. Virtual machines seldom have them.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys
from contextlib import suppress
from pathlib import Path

SYSFS = Path("/sys/bus/event_source/devices")
CONTROLLERS = ("uncore_imc", "amd_umc")
EVENTS = ("cas_count_read", "cas_count_write", "umc_cas_cmd.rd", "umc_cas_cmd.wr")
LINE_BYTES = 64
_CALL = {"x86_64": 298, "aarch64": 241}  # of perf_event_open
_CLOSE_ON_EXEC = 8
_UNIT = {"MiB": 1 << 20, "KiB": 1 << 10, "Bytes": 1, "": LINE_BYTES}


class MemoryCounter:
    """All memory controllers' counters, opened; where there are none, or they may not be read, `read` gives None."""

    def __init__(self, sysfs: Path = SYSFS) -> None:
        self._open: list[tuple[int, float]] = []  # descriptor, and bytes of one count
        for controller in sorted(path for name in CONTROLLERS for path in sysfs.glob(f"{name}*")):
            for name in EVENTS:
                with suppress(OSError, ValueError):
                    kind, config, cpu = event_of(controller, name)
                    self._open.append((open_event(kind, config, cpu), bytes_of_a_count(controller, name)))

    def read(self) -> float | None:
        """Bytes read from and written to memory so far."""
        if not self._open:
            return None
        return sum(size * count_of(descriptor) for descriptor, size in self._open)

    def close(self) -> None:
        """Let go of the counters."""
        while self._open:
            os.close(self._open.pop()[0])


def event_of(controller: Path, name: str) -> tuple[int, int, int]:
    """A controller's number, the event's bits, and the CPU that reads it; OSError or ValueError if it has none."""
    config = 0
    for term in (controller / "events" / name).read_text().strip().split(","):
        field, _, value = term.partition("=")
        register, _, bits = (controller / "format" / field).read_text().strip().partition(":")
        if register != "config":
            raise ValueError(f"{name} of {controller.name} has bits in {register}")
        config |= int(value or "1", 0) << int(bits.partition("-")[0])
    cpu = (controller / "cpumask").read_text().strip().replace("-", ",").partition(",")[0]
    return int((controller / "type").read_text()), config, int(cpu)


def bytes_of_a_count(controller: Path, name: str) -> float:
    """What one count stands for: a line, unless the system gives a scale and a unit."""
    try:
        scale = float((controller / "events" / f"{name}.scale").read_text())
        return scale * _UNIT[(controller / "events" / f"{name}.unit").read_text().strip()]
    except (OSError, KeyError):
        return LINE_BYTES


def open_event(kind: int, config: int, cpu: int, process: int = -1) -> int:
    """A descriptor of one event: of a whole CPU, or with `cpu` -1 of a process (0: this one). OSError if refused."""
    if sys.platform != "linux" or platform.machine() not in _CALL:
        raise OSError("there are no perf events here")
    attributes = struct.pack("IIQQQQQIIQ", kind, 64, config, 0, 0, 0, 0, 0, 0, 0)
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    descriptor = libc.syscall(
        ctypes.c_long(_CALL[platform.machine()]), ctypes.c_char_p(attributes), ctypes.c_long(process),
        ctypes.c_long(cpu), ctypes.c_long(-1), ctypes.c_long(_CLOSE_ON_EXEC),
    )  # fmt: skip
    if descriptor < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(descriptor)


def count_of(descriptor: int) -> int:
    """What an event has counted."""
    return int(struct.unpack("Q", os.read(descriptor, 8))[0])
