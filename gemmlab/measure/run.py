"""One backend's run at one case, from the question whether to start at all to the record."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from statistics import median
from time import perf_counter
from typing import Any

from gemmlab._registry import plain
from gemmlab.measure import noise
from gemmlab.measure.entrant import Entrant, Over
from gemmlab.measure.prober import Prober
from gemmlab.measure.problems import Case
from gemmlab.measure.process import CAN_SUSPEND
from gemmlab.measure.statistics import summarise
from gemmlab.measure.turn import Turn, that_count

MOST_SAMPLES_A_TURN = 200
MOST_RETAKEN = 2  # times that a disturbed turn is taken again at once


@dataclass
class Run:
    """One entrant at one case."""

    entrant: Entrant
    case: Case
    params: Mapping[str, Any]
    status: str = "ok"
    reason: str | None = None
    prepared: dict[str, Any] = field(default_factory=dict)
    turns: list[Turn] = field(default_factory=list)
    calls_per_sample: int | None = None

    def prepare(self) -> None:
        """Run the product once and have it checked, unless it would take too long; later only make it again."""
        if self.prepared:
            self.entrant.again(self.case, self.params, self.prepared["call_s"])
            return
        predicted_s = self.entrant.predicted_s(self.case, self.params)
        if predicted_s > self.entrant.cap_s:
            cap_s = self.entrant.cap_s
            raise Over("skipped", f"predicted {predicted_s:.3g} s a product, over the cap of {cap_s:g} s")
        self.prepared = self.entrant.prepare(self.case, self.params)
        self._require_right(self.prepared["error_over_bound"])

    def take_turn(self, budget_s: float, prober: Prober) -> None:
        """Have the product timed for a while; again where the machine was disturbed and there is time for it."""
        for _ in range(1 + MOST_RETAKEN):
            start_s = perf_counter()
            self.turns.append(self._timed(budget_s, prober))
            if self.entrant.on_device or prober.is_calm(self.turns[-1].probes) or not prober.may_wait:
                return
            prober.waited(perf_counter() - start_s)

    def _timed(self, budget_s: float, prober: Prober) -> Turn:
        probe_before = prober.latest() if self.entrant.on_device else prober.calm()
        ticks_before = noise.cpu_ticks()
        answer = self.entrant.ask(
            "time", more_s=budget_s, budget_s=budget_s, min_samples=1, max_samples=MOST_SAMPLES_A_TURN
        )
        ticks = ticks_before, noise.cpu_ticks()
        self.calls_per_sample = answer["calls_per_sample"]
        probes = [*probe_before, *prober.probe()]
        return Turn(answer["samples_s"], probes, ticks, answer["kernel_s"], answer["dram_bytes"])

    def finish(self) -> None:
        """Have the last timed product checked, and the operands let go."""
        error = self.entrant.ask("release")["error_over_bound"]
        self.prepared["error_over_bound"] = max(error, self.prepared["error_over_bound"])
        self._require_right(error)

    def attempt(self, step: Callable[..., None], *arguments: Any) -> None:
        """Take one of the steps above, if the run is still on; end the run where the step does."""
        if self.status != "ok":
            return
        try:
            step(*arguments)
        except Over as over:
            self.status, self.reason = over.status, str(over)
            self.turns = []

    def needs_more_turns(self, usual_probe: float | None) -> bool:
        """Whether more turns would tell more."""
        turns = self._that_count(usual_probe)
        return self.status == "ok" and not (
            noise.is_sure([turn.median_s for turn in turns]) and all(turn.is_calm(usual_probe) for turn in turns)
        )

    def _that_count(self, usual_probe: float | None) -> Sequence[Turn]:
        """The probe runs on the CPU, and says nothing of a device."""
        return that_count(self.turns, None if self.entrant.on_device else usual_probe)

    @property
    def worth_recording(self) -> bool:
        """Whether there are samples, or a reason why there are none."""
        return self.status != "ok" or bool(self.turns)

    def record(self, usual_probe: float | None = None, pace: float | None = None) -> dict[str, Any]:
        """Return what this run adds to a record; the session, whose probe this is, adds the rest."""
        entrant, prepared, hello = self.entrant, self.prepared, self.entrant.hello
        traffic = prepared.get("traffic") or {}
        record = {
            "kind": "gemm",
            "status": self.status,
            "reason": self.reason,
            "backend": plain(entrant.backend),
            "params": prepared.get("params", dict(self.params)),
            "problem": self.case.problem(),
            "threads": prepared.get("threads", None if entrant.on_device else entrant.threads),
            "transfers_counted": entrant.transfers_counted,
            "copies": prepared.get("copies"),
            "gflop": self.case.gflop,
            "error_over_bound": prepared.get("error_over_bound"),
            "bytes_compulsory": self.case.bytes_compulsory,
            **{f"bytes_model_{level}": traffic.get(level) for level in ("local", "l1", "l2", "l3", "dram")},
            "packing_percent": None if prepared.get("packing_share") is None else 100 * prepared["packing_share"],
            "wait_policy": wait_policy(),
            "thread_scope": hello.get("thread_scope"),
        }
        if self.turns:
            record |= self._timing(self._that_count(usual_probe), usual_probe, pace)
        return record

    def _timing(self, turns: Sequence[Turn], usual_probe: float | None, pace: float | None) -> dict[str, Any]:
        """What these turns say together."""
        timed = summarise(list(chain.from_iterable(turn.samples_s for turn in turns)))
        moved = [turn.dram_bytes for turn in turns if turn.dram_bytes is not None and not self.entrant.on_device]
        timed |= {
            "turns": len(turns),
            "calls_per_sample": self.calls_per_sample,
            "gflop_per_s": self.case.gflop / max(timed["median_s"], 1e-9),
            "bytes_measured_dram": median(moved) if moved else None,
            **self._noise(turns, timed["noise_percent"], usual_probe, pace),
        }
        if kernels_s := [turn.kernel_s for turn in turns if turn.kernel_s is not None]:
            kernels = summarise(kernels_s)
            timed |= {"kernel_s": kernels["median_s"], "kernel_p20_s": kernels["p20_s"],
                      "kernel_p80_s": kernels["p80_s"]}  # fmt: skip
        return timed

    def _noise(
        self, turns: Sequence[Turn], noise_percent: float, usual_probe: float | None, pace: float | None
    ) -> dict[str, Any]:
        """What disturbed these turns, and whether that is too much."""
        probes = list(chain.from_iterable(turn.probes for turn in turns))
        drop = noise.drop_percent(probes, usual_probe)
        steal = noise.steal_percent(*zip(*(turn.ticks for turn in turns), strict=True))
        of_cpu = (None, None) if self.entrant.on_device else (drop, pace)  # the probe runs there
        reasons = noise.reasons(noise_percent, [turn.median_s for turn in turns], steal, *of_cpu)
        return {
            "noisy": bool(reasons),
            "noisy_because": "; ".join(reasons) or None,
            "probe_gflop_per_s": median(probes) if probes else None,
            "probe_drop_percent": drop,
            "steal_percent": steal,
        }

    def _require_right(self, error: float) -> None:
        if math.isinf(error):
            raise Over("wrong", "a part of the result was left unwritten, or is not a number")
        if not error <= 1:
            raise Over("wrong", f"the error is {error:.3g} times its bound")


def wait_policy() -> str:
    """Say what the idle threads of a process do while another is timed, and within the timed one."""
    policy = os.environ.get("OMP_WAIT_POLICY", "default")
    return policy if CAN_SUSPEND else f"{policy}; processes that wait their turn are not suspended"
