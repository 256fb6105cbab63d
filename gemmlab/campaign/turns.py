"""The ceilings of the CPU, measured in short turns spread over a campaign.

A neighbour that is busy for some seconds slows one turn down, and not the others. Of each ceiling the best turn counts.
The ceilings of a device are measured once. A product that is faster than its roof starts another turn, on either.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import perf_counter

from gemmlab._cpu import machine
from gemmlab.campaign.campaigns import Campaign
from gemmlab.measure.records import Record
from gemmlab.measure.session import OnRecord
from gemmlab.roofline.ceilings import best, cache
from gemmlab.roofline.ceilings.cpu import LATE
from gemmlab.roofline.ceilings.isolated import isolated_ceilings, isolated_device_ceilings
from gemmlab.roofline.model import Roof

TURNS = 3  # before the products, in the middle of their rounds, and after them
MORE_TURNS = 2  # where a product is above its roof
PEAK_S = 0.5  # of a turn that measures the peak alone
START_S = 2.5  # of a turn: its process, and samples of at least a millisecond
DEVICE_SHARE = 0.4  # of a CPU's time for its ceilings: a device has no instruction sets, thread counts and sweep
MIN_CACHED_S = 5.0  # ceilings measured in less time are not stored, nor those of a busy machine

Completed = Callable[[Iterable[Record], str], list[Record]]  # measured ceilings of a device, as whole records


class Turns:
    """All turns of a campaign. `on_record` is called with each ceiling that is better than in the turns before.

    `devices` names a backend of each device.
    """

    def __init__(
        self, campaign: Campaign, devices: Mapping[str, str], completed: Completed, on_record: OnRecord
    ) -> None:  # fmt: skip
        self._campaign, self._devices, self._completed, self._on_record = campaign, devices, completed, on_record
        self._cpu, self._threads = machine.cpu_name(), campaign.settings.thread_count
        known = cache.cached(self._cpu, self._threads) if campaign.uses_cache else []
        self.age = cache.age(known) if known else ""  # of those in the cache; "" without any
        self._peak_alone = bool(known) or not campaign.ceilings_s
        self._in_time = True
        self._best: dict[best.Key, Record] = {}
        self.longest_s = 0.0  # of all turns of the CPU so far
        self._note(known)

    def take(self) -> None:
        """One turn of the CPU."""
        asked_s = PEAK_S if self._peak_alone else self._campaign.ceilings_s / TURNS
        begun_s = perf_counter()
        found = isolated_ceilings(seconds=asked_s, threads=self._threads, bandwidth=not self._peak_alone)
        took_s = perf_counter() - begun_s
        self.longest_s = max(self.longest_s, took_s)
        self._in_time &= took_s < LATE * asked_s + START_S
        self._note(self._completed(found, self._cpu))
        self._peak_alone |= self._campaign.ceilings_s < MIN_CACHED_S  # a short run has time for the whole of it once

    def take_device(self, device: str, fresh: bool = False) -> None:
        """The ceilings of a device: without `fresh` from the cache, where it has them."""
        if known := cache.cached(device) if self._campaign.uses_cache and not fresh else []:
            self._note(known)
            return
        seconds = DEVICE_SHARE * (self._campaign.ceilings_s or PEAK_S)
        try:
            found = isolated_device_ceilings(
                self._devices[device], seconds=seconds, bandwidth=self._campaign.ceilings_s > 0
            )
        except RuntimeError as error:  # other devices can be measured all the same
            warnings.warn(f"{device}: {error}", stacklevel=2)
        else:
            self._note(self._completed(found, device))

    def take_more(self, products: Sequence[Record], left_s: Callable[[], float] = lambda: math.inf) -> None:
        """Further turns while a product is above its roof and there is time."""
        for device in (self._cpu, *self._devices):
            own = [record for record in products if record["device"] == device and record["status"] == "ok"]
            for _ in range(MORE_TURNS):
                ceilings = self._of(device)
                if not ceilings or left_s() < self.longest_s or not any(map(Roof(ceilings).is_exceeded, own)):
                    break
                self.take() if device == self._cpu else self.take_device(device, fresh=True)

    def keep(self) -> None:
        """Store the ceilings in the cache, if enough time was spent on them, and the machine was not busy."""
        if self._campaign.ceilings_s >= MIN_CACHED_S:
            for device in self._devices:
                cache.store(self._of(device))
        if self._peak_alone:
            cache.raise_peaks(self._of(self._cpu))
        elif self._in_time and self._campaign.ceilings_s >= MIN_CACHED_S:
            cache.store(self._of(self._cpu))

    def _of(self, device: str) -> list[Record]:
        """The best so far of each ceiling of a device."""
        return [record for record in self._best.values() if record["device"] == device]

    def _note(self, found: Iterable[Record]) -> None:
        for record in best.improved(self._best, found):
            self._on_record(record)
