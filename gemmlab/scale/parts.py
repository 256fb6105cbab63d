"""The parts of a product as separate problems, and running them at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

from gemmlab._problem import Problem
from gemmlab._process.forks import Pool
from gemmlab.scale.blocks import Block

T = TypeVar("T")


def part_of(problem: Problem, block: Block) -> Problem:
    """The product of a block of C: views of A, B and C. Operands of another dtype are converted once for all parts."""
    lead, rows, columns = block
    return Problem(
        problem.a[(*lead, rows)], problem.b[(*lead, slice(None), columns)], problem.out[(*lead, rows, columns)],
        threads=problem.threads,
    )  # fmt: skip


def _wait_for(futures: Sequence[Future[T]]) -> None:
    """Wait for all. Ctrl-C is raised afterwards: they write into the caller's array."""
    interrupted: KeyboardInterrupt | None = None
    while not all(future.done() for future in futures):
        try:
            wait(futures)
        except KeyboardInterrupt as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def run_at_once(pool: Pool, jobs: Sequence[Callable[[], T]]) -> list[T]:
    """What the jobs return, in their order; the last runs in this thread, the others in the pool.

    An exception is raised when all jobs have ended, so that nothing writes into a result that the caller has back.
    """
    *others, own = jobs
    futures = [pool.submit(job) for job in others]
    try:
        last = own()
    finally:
        _wait_for(futures)
    return [*(future.result() for future in futures), last]
