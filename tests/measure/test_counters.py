"""Hardware counters of memory: the system's description of them, made up, and the real call on an event of software."""

from __future__ import annotations

import os

import numpy as np
import pytest

from gemmlab.measure import counters
from gemmlab.measure.counters import MemoryCounter, bytes_of_a_count, count_of, event_of, open_event

SOFTWARE, PAGE_FAULTS = 1, 2  # <linux/perf_event.h>


@pytest.fixture
def controller(tmp_path):
    """A memory controller as Linux describes Intel's."""
    folder = tmp_path / "uncore_imc_0"
    for name, text in {
        "type": "18\n", "cpumask": "0,32\n", "events/cas_count_read": "event=0x04,umask=0x03\n",
        "events/cas_count_read.scale": "6.103515625e-5\n", "events/cas_count_read.unit": "MiB\n",
        "format/event": "config:0-7\n", "format/umask": "config:8-15\n", "events/cas_count_write": "event=0x04,edge\n",
        "format/edge": "config:18\n",
    }.items():  # fmt: skip
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def test_an_event_is_read_from_its_description(controller):
    assert event_of(controller, "cas_count_read") == (18, 0x0304, 0)
    assert event_of(controller, "cas_count_write") == (18, 0x04 | 1 << 18, 0)
    with pytest.raises(OSError, match="umc_cas_cmd"):
        event_of(controller, "umc_cas_cmd.rd")


def test_a_count_is_a_line_unless_the_system_says_otherwise(controller):
    assert bytes_of_a_count(controller, "cas_count_read") == 64
    assert bytes_of_a_count(controller, "cas_count_write") == 64


def test_all_controllers_are_added_up(controller, monkeypatch):
    monkeypatch.setattr(counters, "open_event", lambda kind, config, cpu: config)
    monkeypatch.setattr(counters, "count_of", lambda descriptor: {0x0304: 10, 0x04 | 1 << 18: 3}[descriptor])
    assert MemoryCounter(controller.parent).read() == 13 * 64


def test_without_counters_nothing_is_said(tmp_path, controller, monkeypatch):
    assert MemoryCounter(tmp_path / "none").read() is None

    def refuse(*arguments):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(counters, "open_event", refuse)
    assert MemoryCounter(controller.parent).read() is None


def test_the_system_call_counts():
    try:
        descriptor = open_event(SOFTWARE, PAGE_FAULTS, -1, process=0)
    except OSError as error:
        pytest.skip(f"no perf events: {error}")
    try:
        before = count_of(descriptor)
        np.ones(1 << 22)  # 32 MiB, fresh from the system
        assert count_of(descriptor) > before
    finally:
        os.close(descriptor)


def test_an_unknown_event_is_refused():
    with pytest.raises(OSError):  # noqa: PT011, whatever the system calls it
        open_event(0xFFFF, 0, -1, process=0)
