"""One backend in a session, and its run at one case.

An `Entrant` is a backend with its process, started when first needed and again after a death, and its pace.
A `Run` is an entrant at one case, from the question whether to start at all to the record. Whatever ends a
run early is an `Over` with a status and a reason.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from gemmlab._gpu import RUNTIMES
from gemmlab._registry import plain
from gemmlab.measure import noise
from gemmlab.measure.binding import cpu_numbers
from gemmlab.measure.problems import Case
from gemmlab.measure.process import CAN_SUSPEND, WorkerDied, WorkerProcess
from gemmlab.measure.records import titled
from gemmlab.measure.statistics import summarise

MOST_SAMPLES_A_TURN = 200
_PROBE_GFLOP = 2e-9 * 128**3  # done in well under a second by anything
_PROBE_SHARE = 1 / 8  # of the cap: what a probe may take
_PROBE_GROWTH = 1.5  # a probe not so much larger than what is known already is not worth running
_PATIENCE_S, _PATIENCE_CAPS = 60.0, 20.0  # after the longer of the two, a silent worker hangs


class Over(Exception):
    """A run ends here."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True)
class Pace:
    """How fast a backend was at the work that it did last."""

    gflop: float
    gflop_per_s: float


class Entrant:
    """One backend in a session; `resident` has a device's operands be on the device beforehand."""

    def __init__(self, backend: str, threads: int, command: Sequence[str], resident: bool = False) -> None:
        self.backend = backend
        self.threads = threads
        self.resident = resident
        self.cap_s = float("inf")  # seconds that one product may take; each measurement sets it
        self.hello: dict[str, Any] = {}
        self._command = command
        self._process: WorkerProcess | None = None
        self._pace: dict[str, Pace] = {}  # by dtype and parameters
        self._never: tuple[str, str] | None = None  # status and reason of one that cannot run here

    def ask(self, command: str, more_s: float = 0.0, **arguments: Any) -> dict[str, Any]:
        """Ask the backend's process; `more_s` is time that the command itself asks for."""
        with self._mortal():
            answer = self._started().ask(command, self._patience_s + more_s, **arguments)
        if over := _over_by(answer):
            raise over
        return answer

    def start(self) -> None:
        """Start the process, so that `hello` says what it is; whatever stops it, later questions meet again."""
        with suppress(Over), self._mortal():
            self._started()

    @property
    def title(self) -> str:
        """The backend, and whether its times include transfers."""
        return titled(self.backend, self.transfers_counted)

    @property
    def on_device(self) -> bool:
        """Whether the backend runs on a device, as far as is known; until it says so, it does not."""
        return not self.hello.get("on_cpu", True)

    @property
    def transfers_counted(self) -> bool | None:
        """Whether moving operands to and from a device is in its times; None on a CPU."""
        return not self.resident if self.on_device else None

    def renew(self) -> None:
        """Have the next question start another process, where that is cheap: a device's compiles its kernels again."""
        if not self.on_device:
            self.close()

    def close(self, gently: bool = True) -> None:
        """End the process; a later question starts another."""
        if self._process is not None:
            self._process.close(gently)
            self._process = None

    def prepare(self, case: Case, params: Mapping[str, Any]) -> dict[str, Any]:
        """Run the product once, have it checked, and remember how fast it was."""
        answer = self.ask("prepare", case=case.to_json(), params=dict(params))
        pace = Pace(case.gflop, case.gflop / max(answer["call_s"], 1e-9))
        self._pace[_kind_of_work(case, params)] = pace
        return answer

    def again(self, case: Case, params: Mapping[str, Any], call_s: float) -> None:
        """Have a product made again whose call was found to take so long."""
        self.ask("again", case=case.to_json(), params=dict(params), call_s=call_s)

    def predicted_s(self, case: Case, params: Mapping[str, Any]) -> float:
        """Seconds that one product will take, from the pace at smaller work; 0 for work that is small.

        A small product says little about a large one, so before a case is found too long, squares are
        tried that climb towards it, each as large as it can be and still be cheap.
        """
        while True:
            pace = self._pace.get(_kind_of_work(case, params))
            if pace is None and case.gflop <= _PROBE_GFLOP:
                return 0.0
            predicted_s = case.gflop / pace.gflop_per_s if pace else float("inf")
            cheap_gflop = pace.gflop_per_s * self.cap_s * _PROBE_SHARE if pace else _PROBE_GFLOP
            probe = _square(min(cheap_gflop, case.gflop), case.dtype)
            if predicted_s <= self.cap_s or (pace and probe.gflop < _PROBE_GROWTH * pace.gflop):
                return predicted_s
            self.prepare(probe, params)

    @contextmanager
    def _mortal(self) -> Iterator[None]:
        """Turn the death of the process into the end of a run; one that died at its start stays dead."""
        if self._never is not None:
            raise Over(*self._never)
        try:
            yield
        except WorkerDied as death:
            self.close(gently=False)
            if not self.hello:
                self._never = "failed", str(death)
            raise Over("failed", str(death)) from None

    @property
    def _patience_s(self) -> float:
        return max(_PATIENCE_S, _PATIENCE_CAPS * self.cap_s)

    def _started(self) -> WorkerProcess:
        if self._process is None:
            on_runtime = plain(self.backend).partition("-")[0] in RUNTIMES
            self._process = WorkerProcess(self.threads, self._command, bound=not on_runtime)
            wish = {"backend": self.backend, "threads": self.threads, "resident": self.resident}
            hello = self._process.ask("hello", self._patience_s, **wish, cpus=cpu_numbers())
            if over := _over_by(hello):
                self._never = over.status, str(over)
                raise over
            self.hello = hello
        return self._process


def _over_by(answer: Mapping[str, Any]) -> Over | None:
    """Return how a run ends that got this answer; None if it goes on."""
    if "error" not in answer:
        return None
    if answer.get("unsupported"):
        return Over("skipped", str(answer["error"]).partition(": ")[2])
    return Over("failed", str(answer["error"]))


def _square(gflop: float, dtype: str) -> Case:
    """Return the largest square product of no more than this work."""
    edge = max(1, int(math.cbrt(gflop / 2e-9) + 1e-6))
    return Case("probe", str(edge), edge, edge, edge, dtype)


def _kind_of_work(case: Case, params: Mapping[str, Any]) -> str:
    return f"{case.dtype} {sorted(params.items())}"


@dataclass
class Run:
    """One entrant at one case."""

    entrant: Entrant
    case: Case
    params: Mapping[str, Any]
    status: str = "ok"
    reason: str | None = None
    prepared: dict[str, Any] = field(default_factory=dict)
    samples_s: list[float] = field(default_factory=list)
    kernels_s: list[float] = field(default_factory=list)
    dram_bytes: list[float] = field(default_factory=list)  # a call, by hardware counters, in each turn
    turns_s: list[float] = field(default_factory=list)  # the median of each turn
    probes: list[float] = field(default_factory=list)  # GFLOP/s of the session's probe, before each turn
    ticks: list[tuple[Any, Any]] = field(default_factory=list)  # the system's clock ticks before and after each
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

    def take_turn(self, budget_s: float) -> None:
        """Have the product timed for a while."""
        before = noise.cpu_ticks()
        answer = self.entrant.ask(
            "time", more_s=budget_s, budget_s=budget_s, min_samples=1, max_samples=MOST_SAMPLES_A_TURN
        )
        self.ticks.append((before, noise.cpu_ticks()))
        self.samples_s += answer["samples_s"]
        self.turns_s.append(median(answer["samples_s"]))
        self.kernels_s += [answer["kernel_s"]] if answer["kernel_s"] is not None else []
        if answer["dram_bytes"] is not None and not self.entrant.on_device:
            self.dram_bytes.append(answer["dram_bytes"])
        self.calls_per_sample = answer["calls_per_sample"]

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
            self.samples_s = []

    @property
    def needs_more_turns(self) -> bool:
        """Whether more turns would tell more."""
        return self.status == "ok" and not noise.is_sure(self.turns_s)

    @property
    def worth_recording(self) -> bool:
        """Whether there are samples, or a reason why there are none."""
        return self.status != "ok" or bool(self.samples_s)

    def record(self, usual_probe: float | None = None, known_probe: float | None = None) -> dict[str, Any]:
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
        if self.samples_s:
            record |= summarise(self.samples_s)
            record["calls_per_sample"] = self.calls_per_sample
            record["gflop_per_s"] = self.case.gflop / max(record["median_s"], 1e-9)
            record["bytes_measured_dram"] = median(self.dram_bytes) if self.dram_bytes else None
            record |= self._noise(record["noise_percent"], usual_probe, known_probe)
        if self.kernels_s and self.samples_s:
            kernels = summarise(self.kernels_s)
            record |= {"kernel_s": kernels["median_s"], "kernel_p20_s": kernels["p20_s"],
                       "kernel_p80_s": kernels["p80_s"]}  # fmt: skip
        return record

    def _noise(
        self, noise_percent: float, usual_probe: float | None, known_probe: float | None
    ) -> dict[str, Any]:
        """What disturbed this run, and whether that is too much."""
        drop = noise.drop_percent(self.probes, usual_probe)
        steal = noise.steal_percent(*zip(*self.ticks, strict=True)) if self.ticks else None
        pace = noise.pace_percent(self.probes, known_probe)
        of_cpu = (None, None) if self.entrant.on_device else (drop, pace)  # the probe runs there
        reasons = noise.reasons(noise_percent, self.turns_s, steal, *of_cpu)
        return {
            "noisy": bool(reasons),
            "noisy_because": "; ".join(reasons) or None,
            "probe_gflop_per_s": median(self.probes) if self.probes else None,
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
