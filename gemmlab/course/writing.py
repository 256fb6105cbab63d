"""What the pages of the course have in common: tables, links, and how a run is spoken of."""

from __future__ import annotations

from collections.abc import Sequence

from gemmlab._name import BackendName
from gemmlab.analysis.formatting import threads_text
from gemmlab.course.gains import OWN, Run, Step
from gemmlab.course.rungs import RUNTIME_NAMES, Rung

HOW_TO_READ = (
    "Higher is faster. Further right means fewer bytes from memory per operation, by the rung's traffic model. A "
    "sloped line is a measured bandwidth (if there is one), a horizontal line a measured multiply-add rate: together "
    "they are the roof over every product."
)
DASH, UNBROKEN_PERCENT = "–", "\u00a0%"


def where(run: Run) -> str:
    """The machine, with the threads that the rung ran on, or its runtime."""
    step = run.steps[0]
    return f"{run.machine}, {threads_text(step.threads)}" if step.threads else f"{run.machine}{_through(step)}"


def headline(run: Run) -> Step:
    """The largest product of a run that the rung before, the first and the last rung have, too, if there is one.

    A short run of the user's has the first rung, which is slow, at small sizes alone: there it need not be.
    """

    def rank(step: Step) -> tuple[bool, bool, bool, int]:
        first = step.first is not None and run.file != OWN
        return step.before is not None, first, step.last is not None, step.n

    return max(run.steps, key=rank)


def _through(step: Step) -> str:
    """The runtime of a step on a device, as the end of a phrase."""
    runtime = BackendName.of(step.after["backend"]).runtime
    return f" through {RUNTIME_NAMES[runtime]}" if runtime in RUNTIME_NAMES else ""


def link(rung: Rung) -> str:
    """A link to the page of a rung."""
    return f"[{rung.title}]({rung.page}.md)"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace(" %", UNBROKEN_PERCENT)
