"""The processes that build and try configurations, each with a time limit; one that dies is started again.

Whatever happens to a configuration is its result: a compiler that hangs, a kernel that ends the process. The search
goes on with a new process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any

from gemmlab._errors import BackendUnavailable, DeviceError
from gemmlab._process.children import Answer, WorkerDied, WorkerProcess, child_command
from gemmlab._words import printable, shortened

COMMAND = child_command("gemmlab.tune.devices.child")
START_S = 120.0  # for the first context on a device, and what is probed there
BUILD_S = 30.0  # no kernel is worth more
FIRST_S = 60.0  # for a trial before anything is known of the kernel's speed
KERNEL_S = 10.0  # for the checks of a trial, and what the driver does besides
RUNS_OF_BEST = 100  # times as long as the best: a trial that is slow, but ends, is no hang
MESSAGE_LETTERS = 500  # of a compiler's message at most


class Worker:
    """One process of `child.py`, started when it is first asked."""

    def __init__(self, backend: str, folder: str, command: Sequence[str]) -> None:
        self._who = {"backend": backend, "folder": folder}
        self._command = command
        self._process: WorkerProcess | None = None
        self.known: set[object] = set()  # dtypes and shapes that this process has tried

    def describe(self) -> Answer:
        """What the device is. BackendUnavailable or DeviceError if it cannot be opened."""
        return self._answer(self._started(), "describe")

    def _started(self) -> WorkerProcess:
        """The process, in which the device is open."""
        if self._process is None:
            # One thread for NumPy's products: a pool would go on spinning beside the device's threads.
            self._process = WorkerProcess(1, self._command, affinity=False)
            self.known = set()
            self._answer(self._process, "hello", **self._who)
        return self._process

    def _answer(self, process: WorkerProcess, command: str, **arguments: object) -> Answer:
        try:
            answer = process.ask(command, START_S, **arguments)
        except WorkerDied as death:
            self.close()
            raise DeviceError(f"{self._who['backend']} cannot be tuned: {death}") from None
        if "error" in answer:
            self.close()
            kind = BackendUnavailable if answer.get("unsupported") else DeviceError
            raise kind(str(answer["error"]).partition(": ")[2])
        return answer

    def ask(self, command: str, limit_s: float, **arguments: object) -> Answer:
        """An answer, with the outcome "failed" if there is none or it is an error; the process is ended then.

        BackendUnavailable or DeviceError if the device cannot be opened.
        """
        process = self._started()
        try:
            answer = process.ask(command, limit_s, **arguments)
        except WorkerDied as death:
            answer = {"error": str(death)}
        if "error" in answer:
            self.close()
            return {"outcome": "failed", "reason": shortened(printable(str(answer["error"])), MESSAGE_LETTERS)}
        return answer

    def close(self) -> None:
        """End the process, which may not answer any more."""
        process, self._process = self._process, None
        if process is not None:
            process.close(gently=False)


class Trials(Worker):
    """The process in which configurations are tried, one at a time."""

    def trial(self, best_s: float | None, is_built: bool, **arguments: object) -> Answer:
        """Try a configuration; `best_s` is what the best takes for the shape. DeviceError if no process can start."""
        limit_s = FIRST_S if best_s is None else KERNEL_S + RUNS_OF_BEST * best_s
        if not is_built:
            limit_s += BUILD_S
        self._started()
        if (product := (arguments["dtype"], arguments["shape"])) not in self.known:
            limit_s += FIRST_S  # it makes the operands first, and may have to build the best
        self.known.add(product)
        answer = self.ask("trial", limit_s, **arguments)
        if answer["outcome"] == "wrong":
            self.close()  # it may have written over anything, the operands too
        return answer


class Builders:
    """Processes that compile at the same time, into one program cache."""

    def __init__(self, count: int, backend: str, folder: str, command: Sequence[str]) -> None:
        self.count = count
        self._workers = [Worker(backend, folder, command) for _ in range(count)]
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        for worker in self._workers:
            self._idle.put(worker)
        self._threads = ThreadPoolExecutor(max(1, count))

    def start(self, dtype: str, parameters: Mapping[str, int]) -> Future[Answer]:
        """Begin to build a configuration; without builders there is nothing to do."""
        if not self._workers:
            nothing: Future[Answer] = Future()
            nothing.set_result({})
            return nothing
        return self._threads.submit(self._build, {"dtype": dtype, "parameters": dict(parameters)})

    def _build(self, what: Mapping[str, Any]) -> Answer:
        worker = self._idle.get()
        try:
            return worker.ask("build", BUILD_S, **what)
        except (DeviceError, BackendUnavailable) as error:  # this one does not start; the trial builds it
            return {"not_built": str(error)}
        finally:
            self._idle.put(worker)

    def close(self) -> None:
        """End all processes, and with them what their threads wait for."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.close()
        self._threads.shutdown()
