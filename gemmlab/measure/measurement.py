"""One backend at one case: from the question whether to run it at all, round by round, to its record."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain
from statistics import median

from gemmlab._name import BackendName
from gemmlab._process.children import CAN_SUSPEND, Answer
from gemmlab.measure import noise
from gemmlab.measure.isolated.backend import IsolatedBackend, NotMeasured, Params
from gemmlab.measure.problems import Case
from gemmlab.measure.records import Record

MAX_SAMPLES_A_ROUND = 200
NO_TIME = "not measured: no time was left"
NO_TIME_FOR_ROUNDS = "not measured: there was no time for {} rounds"


@dataclass
class Measurement:
    """One isolated backend at one case."""

    backend: IsolatedBackend
    case: Case
    params: Params
    planned: int = 1  # rounds
    cold: bool = False
    status: str = "ok"
    reason: str | None = None
    prepared: Answer = field(default_factory=dict)
    rounds: list[list[float]] = field(default_factory=list)  # seconds a call, of each sample
    kernels_s: list[float] = field(default_factory=list)  # by a device's clock, of one call a round
    probes: list[float] = field(default_factory=list)  # GFLOP/s before and after each round
    calls_per_sample: int | None = None

    def prepare(self) -> None:
        """Run the product once and have it checked, unless it would take too long; in later rounds only make it."""
        if self.prepared:
            self.backend.prepare_again(self.case, self.params, self.prepared["call_s"])
            return
        predicted_s = self.backend.predicted_s(self.case, self.params)
        if predicted_s > self.backend.cap_s:
            cap_s = self.backend.cap_s
            raise NotMeasured("skipped", f"predicted {predicted_s:.3g} s a product, over the cap of {cap_s:g} s")
        self.prepared = self.backend.prepare(self.case, self.params)
        self._require_right(self.prepared["error_over_bound"])

    def time(self, budget_s: float) -> None:
        """Have the product timed for one round."""
        answer = self.backend.ask(
            "time", more_s=budget_s, budget_s=budget_s, min_samples=1, max_samples=MAX_SAMPLES_A_ROUND, cold=self.cold
        )
        self.calls_per_sample = answer["calls_per_sample"]
        self.rounds.append(answer["samples_s"])
        if answer["kernel_s"] is not None:
            self.kernels_s.append(answer["kernel_s"])

    def release(self) -> None:
        """Have the last timed product checked, and the operands freed."""
        error = self.backend.ask("release")["error_over_bound"]
        self.prepared["error_over_bound"] = max(error, self.prepared["error_over_bound"])
        self._require_right(error)

    def leave_out(self) -> None:
        """NotMeasured: its rounds would take the time of others."""
        raise NotMeasured("skipped", NO_TIME_FOR_ROUNDS.format(self.planned))

    def require_a_round(self) -> None:
        """NotMeasured if the time was over before its first round."""
        if not self.rounds:
            raise NotMeasured("skipped", NO_TIME)

    def attempt(self, step: Callable[[], None]) -> None:
        """Take one of the steps above, unless the measurement has ended; note if the step ends it."""
        if self.status != "ok":
            return
        try:
            step()
        except NotMeasured as end:
            self.status, self.reason = end.status, str(end)
            self.rounds = []

    @property
    def operands_s(self) -> float:
        """Seconds that making the operands took."""
        return float(self.prepared.get("operands_s", 0.0))

    @property
    def needs_more_rounds(self) -> bool:
        """Whether the interval is too wide."""
        interval = self._interval_percent
        return self.status == "ok" and (interval is None or interval > noise.MAX_INTERVAL_PERCENT)

    @property
    def _interval_percent(self) -> float | None:
        return noise.interval_percent([median(samples) for samples in self.rounds])

    @property
    def has_result(self) -> bool:
        """Whether there are samples, or a reason why there are none."""
        return self.status != "ok" or bool(self.rounds)

    def record(self) -> Record:
        """What this measurement adds to a record; the session adds the rest."""
        backend, prepared = self.backend, self.prepared
        traffic = prepared.get("traffic") or {}
        record = {
            "kind": "gemm",
            "status": self.status,
            "reason": self.reason,
            "backend": BackendName.of(backend.backend).plain,
            "params": prepared.get("params", dict(self.params)),
            "problem": self.case.problem(),
            "threads": prepared.get("threads", None if backend.on_device else backend.threads),
            "transfers_counted": backend.transfers_counted,
            "cold": self.cold,
            "copies": prepared.get("copies"),
            "gflop": self.case.gflop,
            "error_over_bound": prepared.get("error_over_bound"),
            "bytes_compulsory": self.case.bytes_compulsory,
            **{f"bytes_model_{level}": traffic.get(level) for level in ("local", "l1", "l2", "l3", "dram")},
            "packing_percent": None if prepared.get("packing_share") is None else 100 * prepared["packing_share"],
            "wait_policy": wait_policy(),
            "thread_scope": backend.hello.get("thread_scope"),
        }
        return record | self._timing() if self.rounds else record

    def _timing(self) -> Record:
        """What all rounds say together."""
        timed = noise.summarise(list(chain.from_iterable(self.rounds)))
        interval = self._interval_percent
        why_noisy = noise.why_noisy(timed["noise_percent"], interval)
        if len(self.rounds) < self.planned:
            why_noisy = f"only {len(self.rounds)} of {self.planned} rounds were measured"
        timing: Record = timed | {
            "rounds": len(self.rounds),
            "calls_per_sample": self.calls_per_sample,
            "gflop_per_s": self.case.gflop / max(timed["median_s"], 1e-9),
            "interval_percent": interval,
            "noisy": why_noisy is not None,
            "noisy_because": why_noisy,
            "probe_gflop_per_s": median(self.probes) if self.probes else None,
        }
        if self.kernels_s:
            kernel = noise.summarise(self.kernels_s)
            timing |= {"kernel_s": kernel["median_s"], "kernel_p20_s": kernel["p20_s"], "kernel_p80_s": kernel["p80_s"]}
        return timing

    def _require_right(self, error: float) -> None:
        if math.isinf(error):
            raise NotMeasured("wrong", "a part of the result was left unwritten, not a number, or a wrong integer")
        if not error <= 1:
            raise NotMeasured("wrong", f"the error is {error:.3g} times its bound")


def wait_policy() -> str:
    """What idle threads of a worker process do, as its environment says."""
    policy = os.environ.get("OMP_WAIT_POLICY", "default")
    return policy if CAN_SUSPEND else f"{policy}; waiting processes are not suspended"
