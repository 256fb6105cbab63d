"""The first page of the course: both ladders at a glance."""

from __future__ import annotations

from gemmlab._words import number, percent
from gemmlab.analysis.formatting import threads_text
from gemmlab.course.gains import OWN, Measured, Step, over_threads
from gemmlab.course.rungs import ladders
from gemmlab.course.writing import DASH, HOW_TO_READ, headline, link, table, where

OVERVIEW_INTRODUCTION = """# All rungs at a glance

Each row compares a rung with the rung before it, in the same run and on as many threads. The share is of the measured
peak of as many threads. What more threads give is another factor, in a separate column. Each name links to the page
of the rung."""


def overview(measured: Measured) -> str:
    """The text of the page."""
    return "\n\n".join([OVERVIEW_INTRODUCTION, *(_overview_of(ladder, measured) for ladder in ladders())]) + "\n"


def _overview_of(ladder: str, measured: Measured) -> str:
    """A ladder's table and its figure: the user's machine, where it was measured, and the first of those that ship."""
    rungs = ladders()[ladder]
    found = {rung.page: measured.runs(rung) for rung in rungs}
    rows = [[link(rung), rung.summary] for rung in rungs]
    titles, said = ["rung", "idea"], []
    has_own = any(run.file == OWN for some in found.values() for run in some)
    for own in (True, False) if has_own else (False,):
        chosen = {page: [run for run in some if (run.file == OWN) == own] for page, some in found.items()}
        steps = {page: headline(some[0]) for page, some in chosen.items() if some}
        places = [f"N = {step.n} on {where(chosen[page][0])}" for page, step in steps.items()]
        common = max(places, key=places.count)
        usual = int(common.removeprefix("N = ").partition(" ")[0])
        column = ("here" if own else "there") if has_own else ""
        titles += [f"GFLOP/s {column} (of peak)".replace("  ", " "), "times the rung before"]
        titles += ["on more threads"] * (ladder == "CPU" and not has_own)
        sizes = " where no other N is given" if len(set(places)) > 1 else ""
        said.append(f"{f'“{column.capitalize()}” is' if column else 'All rows:'} float32, {common}{sizes}.")
        for row, rung in zip(rows, rungs, strict=True):
            step = steps.get(rung.page)
            row += [_speed_and_share(step, usual), (step.gain.partition(" (")[0] if step else "") or DASH]
            if ladder == "CPU" and not has_own:
                row.append(_more_threads(over_threads(step, chosen[rung.page]) if step else None))
    parts = [f"## The {ladder} ladder", " ".join(said), table(titles, rows), _figure_of_all(ladder, measured)]
    return "\n\n".join(parts)


def _speed_and_share(step: Step | None, usual_n: int) -> str:
    if step is None:
        return DASH
    share = f" ({percent(step.share_of_peak)})" if step.share_of_peak else ""
    return f"{number(step.after['gflop_per_s'])}{share}{f' at N = {step.n}' * (step.n != usual_n)}"


def _more_threads(more: tuple[Step, float] | None) -> str:
    """What more threads give, as a cell."""
    if more is None:
        return DASH
    step, factor = more
    return f"{number(step.after['gflop_per_s'])} on {threads_text(step.threads or 1)}, {number(factor)} times"


def _figure_of_all(ladder: str, measured: Measured) -> str:
    options = f":alt: Roofline of the {ladder} ladder\n:width: 100%"
    machine = measured.first(ladder).machine
    what = f"The rungs, and the baselines (hollow and dashed), over N, on {machine}."
    return f"```{{figure}} {ladder.lower()}-ladder.svg\n{options}\n\n{what} {HOW_TO_READ}\n```"
