"""The page of each rung, and an overview of all rungs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import unified_diff
from os.path import relpath
from pathlib import Path

from gemmlab._words import number, percent
from gemmlab.analysis.formatting import sentence, threads_text
from gemmlab.course.contradictions import contradictions
from gemmlab.course.gains import (
    OWN,
    Measured,
    Run,
    Step,
    bytes_per_multiply_add,
    most_by_model,
    over_threads,
    roofline,
    roofline_of_all,
)
from gemmlab.course.heads import Head, first_line_of_code, read_head
from gemmlab.course.overview import overview
from gemmlab.course.rungs import ROOT, Rung, all_rungs, ladders, questions, settings
from gemmlab.course.writing import DASH, HOW_TO_READ, UNBROKEN_PERCENT, headline, link, table, where
from gemmlab.measure.comparison import NO_DIFFERENCE
from gemmlab.measure.records import Record

FOLDER = "rungs"
LEXER = {".pyx": "cython", ".cl": "c", ".h": "c", ".hpp": "c++"}
HOW_MEASURED = {
    "CPU": "Whole calls, float32, medians",
    "GPU": "Kernels alone, by the device's own clock, float32, medians",
}
WHY_RUNS_DIFFER = (
    "The runs are of different machines, or of one machine on different days. They differ in clock, caches and what "
    "other guests of the host did, so compare figures within a table only."
)
# Without scripts, the figures stand there and the question is one to think about.
PREDICT = """<form class="predict" data-measured="{measured}">
<label>Predict before you read on: how many times as fast as {before} is {rung} at N = {n}?
<input inputmode="decimal"></label>
<button>Show what was measured</button> <output></output>
</form>"""
FOLDED = {"hint": "A hint", "answer": "What to expect"}
DRAWN_ON = {"CPU": "cpu", "GPU": "opencl"}  # the runtime in the figure of a whole ladder


@dataclass(frozen=True)
class Lesson:
    """What the page of a rung is made of."""

    rung: Rung
    head: Head
    runs: Sequence[Run]
    listing: str = ""


def all_pages(measured: Measured, listings: Mapping[str, str] | None = None) -> dict[str, str]:
    """The text of each page and figure, by path below the folder of the pages.

    `listings` has the machine code of some rungs' inner loops on this machine, by page.
    """
    generated = {f"{FOLDER}/index.md": overview(measured)}
    for ladder, runtime in DRAWN_ON.items():
        generated[f"{FOLDER}/{ladder.lower()}-ladder.svg"] = roofline_of_all(measured.first(ladder), runtime)
    for rung in all_rungs():
        generated[f"{FOLDER}/{rung.page}.md"] = page(rung, measured, (listings or {}).get(rung.page, ""))
        if rung_runs := measured.runs(rung):
            generated[f"{FOLDER}/{rung.page}.svg"] = roofline(_to_draw(rung_runs))
    return generated


def page(rung: Rung, measured: Measured, listing: str = "") -> str:
    """The page of one rung."""
    lesson = Lesson(rung, head_of(rung), measured.runs(rung), listing)
    sections: Sequence[Callable[[Lesson], str]] = (
        _title, _loop_nest, _traffic, _ideas, _measured, _figure, _code, _machine_code, _difference, _parameters,
        _questions,
    )  # fmt: skip
    return "\n\n".join(filter(None, (section(lesson) for section in sections))) + "\n"


def head_of(rung: Rung) -> Head:
    """The head of a rung's first file. `course.toml` has what it does not say, for a rung of several files."""
    return replace(read_head(rung.files[0]), **settings()["heads"].get(rung.page, {}))


def _title(lesson: Lesson) -> str:
    rung, head = lesson.rung, lesson.head
    position = f"Rung {rung.number} of {len(ladders()[rung.ladder])} of the {rung.ladder} ladder"
    file = f"`{rung.files[0].relative_to(ROOT)}`"
    if rung.ladder == "GPU":
        names = ", ".join(f"`{name}`" for name in rung.backends.values())
        file += f", run as {names}"
    return f"# {rung.title}\n\n{{.lead}}\n{sentence(head.idea)}\n\n{{.place}}\n{position}: {file}"


def _loop_nest(lesson: Lesson) -> str:
    rung, head = lesson.rung, lesson.head
    source = f"Source: {head.source or f'{rung.source}.'}"
    picture = f'<a class="play" href="{rung.moving_picture}">Watch it, access by access</a>'
    parts = ["## The loop nest", f"```text\n{head.loops}\n```", picture, *head.remarks, source]
    return "\n\n".join(filter(None, parts))


def _traffic(lesson: Lesson) -> str:
    rung, rung_runs = lesson.rung, lesson.runs
    text = f"## What it costs in traffic, and why\n\n{sentence(lesson.head.traffic)}"
    if not rung_runs:
        return text
    last = headline(rung_runs[0])
    own = bytes_per_multiply_add(last.after)
    old = bytes_per_multiply_add(last.before) if last.before else {}
    titles = ["from", *([_title_before(rung)] if old else []), rung.title]
    rows = [[level, *([number(old.get(level))] if old else []), number(moved)] for level, moved in own.items()]
    levels = [[level, number(moved), DASH] for level, moved in old.items() if level not in own]
    caption = f"Bytes per multiply-add by the traffic models, at N = {last.n} on {where(rung_runs[0])}:"
    return f"{text}\n\n{caption}\n\n{table(titles, rows + levels)}"


def _ideas(lesson: Lesson) -> str:
    """The ideas of a rung that has several: what the head says of each, and what `course.toml` explains."""
    rung, head = lesson.rung, lesson.head
    if not head.ideas:
        return ""
    told = settings()["ideas"][rung.page]
    text = [f"## Its ideas, one at a time\n\n{told['introduction'].strip()}"]
    for count, (name, what) in enumerate(head.ideas.items(), 1):
        text.append(f"### {count}. {sentence(name)[:-1]}\n\n```text\n{what}\n```\n\n{told[name].strip()}")
    return "\n\n".join([*text, told["end"].strip()])


def _measured(lesson: Lesson) -> str:
    rung, rung_runs = lesson.rung, lesson.runs
    text = [f"## {'What it gains' if rung.before else 'How fast it is'}"]
    if not rung_runs:
        return "\n\n".join([*text, f"There are no records of this rung here. To make some: `{_command(rung)}`"])
    first = headline(rung_runs[0])
    if first.before:
        text.append(PREDICT.format(rung=rung.title, before=_title_before(rung), n=first.n,
                                   measured=f"{first.after['gflop_per_s'] / first.before['gflop_per_s']:.3g}"))
    text.append("{.gain}\n" + _gain_sentence(lesson, rung_runs[0], first))
    text += _expected(rung, rung_runs[0], first)
    if rung.before and not rung_runs[0].has_previous:
        text.append(f"No run recorded here has both this rung and {link(rung.before)}. To compare them on your "
                    f"machine: `{_command(rung)}`")  # fmt: skip
    text.append(f"{HOW_MEASURED[rung.ladder]}; p20 to p80 in brackets. Each table is one run, from one file of "
                "records. [All results](../measured/README.md) has the commands.")  # fmt: skip
    if len({run.machine for run in rung_runs}) > 1:
        text.append(WHY_RUNS_DIFFER)
    text += [_gains_table(rung, run) for run in rung_runs]
    return "\n\n".join(text)


def _gain_sentence(lesson: Lesson, run: Run, step: Step) -> str:
    place = f"at N = {step.n} on {where(run)}"
    speed = f"{number(step.after['gflop_per_s'])} GFLOP/s"
    if step.share_of_peak:
        of = f" of {threads_text(step.threads)}" if step.threads else ""
        speed += f", {percent(step.share_of_peak)} of the measured peak{of}"
    times = step.gain.partition(" (")[0]
    seen = f"{times} times the speed of" if times != NO_DIFFERENCE else "No difference seen from"
    gain = f"**{seen} {_title_before(lesson.rung)}** {place}: {speed}." if step.before else f"**{speed}**, {place}."
    if more := over_threads(step, lesson.runs):
        other, factor = more
        gain += (f" On {threads_text(other.threads or 1)} there, {number(other.after['gflop_per_s'])} GFLOP/s: "
                 f"{number(factor)} times its own speed on one thread.")  # fmt: skip
    return gain.replace(" %", UNBROKEN_PERCENT)


def _expected(rung: Rung, run: Run, step: Step) -> Iterator[str]:
    """What the machine's own model lets one expect of this rung and of the one before; nothing where it is exceeded."""
    most = most_by_model(run, step.after)
    before = most_by_model(run, step.before) if step.before else None
    if most is None or most.is_exceeded:
        return
    text = (f"By its traffic model and the ceilings that were measured there, it reaches at most "
            f"{number(most.attainable)} GFLOP/s ({most.name})")  # fmt: skip
    if before is not None and not before.is_exceeded:
        ratio = most.attainable / before.attainable
        times = "as much" if 0.95 < ratio < 1.05 else f"{number(ratio)} times"
        text += f", and {_title_before(rung)} at most {number(before.attainable)} ({before.name}): {times}"
    yield f"{text}. What is missing is latency, or work that the model leaves out."


def _gains_table(rung: Rung, run: Run) -> str:
    """Each size with the ladder's first rung, the rung before, this rung and the last one, all of one run."""
    others = {"before": rung.before, "last": run.last}
    if rung.before is not rung.first:
        others = {"first": rung.first, **others}
    if rung.before is run.last:
        del others["last"]
    roles = [role for role, other in others.items() if other and any(_record(step, role) for step in run.steps)]
    at = roles.index("last") if "last" in roles else len(roles)
    names = [others[role].title for role in roles if others[role]]  # type: ignore[union-attr]
    titles = ["N", *(f"{name}, GFLOP/s" for name in [*names[:at], rung.title, *names[at:]])]
    gains, shares = any(step.before for step in run.steps), any(step.share_of_peak for step in run.steps)
    threads = run.steps[0].threads
    titles += [f"times {_title_before(rung)}"] * gains
    titles += [f"of the peak{f' of {threads_text(threads)}' if threads else ''}"] * shares
    rows = []
    for step in run.steps:
        cells = [_speed(_record(step, role), threads) for role in roles]
        row = [str(step.n), *cells[:at], f"**{number(step.after['gflop_per_s'])}** {_spread(step)}", *cells[at:]]
        rows.append([*row, *[step.gain] * gains, *[percent(step.share_of_peak)] * shares])
    caption = f"{sentence(where(run))[:-1]} (`{run.file}`)"
    notes = "\n".join(f"* {note}" for note in contradictions(run))
    return "\n\n".join(filter(None, [f"**{caption}**", table(titles, rows), notes]))


def _record(step: Step, role: str) -> Record | None:
    """The record of another rung beside this one. The rung before is the first rung, too, on the second one's page."""
    record: Record | None = getattr(step, role)
    return step.first if role == "before" and record is None and step.first_is_before else record


def _speed(record: Record | None, threads: int | None) -> str:
    """A speed of another rung, with its threads where they are not this rung's."""
    if record is None:
        return ""
    other = f" on {threads_text(record['threads'])}" if record["threads"] != threads else ""
    return f"{number(record['gflop_per_s'])}{other}"


def _spread(step: Step) -> str:
    return f"({number(_rate(step, 'p80_s'))} to {number(_rate(step, 'p20_s'))})"


def _figure(lesson: Lesson) -> str:
    rung = lesson.rung
    if not lesson.runs:
        return ""
    run = _to_draw(lesson.runs)
    compared = f" and {_title_before(rung)}" if run.has_previous else ""
    sizes = f"from N = {run.steps[0].n} to {run.steps[-1].n}" if len(run.steps) > 1 else f"at N = {run.steps[0].n}"
    what = f"{rung.title}{compared} {sizes}, on {where(run)}."
    options = f":alt: Roofline of {rung.title}{compared}, {sizes}\n:width: 100%"
    figure = f"```{{figure}} {rung.page}.svg\n{options}\n\n{what} {HOW_TO_READ}\n```"
    return f"## Its {'move' if run.has_previous else 'place'} on the roofline\n\n{figure}"


def _code(lesson: Lesson) -> str:
    rung = lesson.rung
    text = ["## The code"]
    if rung.ladder == "CPU" and len(rung.files) > 1:
        text.append("These are its two central files. [The ladder](../ladder.md#the-last-cpu-rung) lists all files in "
                    "reading order.")  # fmt: skip
    for file in rung.files:
        options = f":language: {LEXER[file.suffix]}\n:lines: {first_line_of_code(file)}-\n:lineno-match:"
        path = relpath(file, ROOT / "docs" / FOLDER)
        caption = f"`{file.relative_to(ROOT)}`, without its head"
        text += [f"{caption}:", f"```{{literalinclude}} {path}\n{options}\n```"]
    return "\n\n".join(text)


def _machine_code(lesson: Lesson) -> str:
    """The inner loop as the compiler made it, on the user's machine or by a command."""
    name = lesson.rung.backends.get("cuda", lesson.rung.page)
    title, command = "## The machine code of its inner loop", f"gemmlab asm {name}"
    if lesson.listing:
        return f"{title}\n\nOn your machine, by `{command}`:\n\n```text\n{lesson.listing}\n```"
    if lesson.rung.ladder == "GPU":
        what = "This shows it in PTX, and the registers that it takes; without `--isa` it is for the GPU at hand"
        command += " --isa sm_90"
    else:
        what = "This shows it, found by samples, with the line of each instruction"
    return f"{title}\n\n{what}:\n\n```bash\n{command}\n```"


def _difference(lesson: Lesson) -> str:
    rung, head = lesson.rung, lesson.head
    if rung.before is None:
        return ""
    title = f"## What changed since {_title_before(rung)}"
    if rung.ladder == "CPU" and len(rung.files) > 1:
        return f"{title}\n\nEverything: it shares no line with {link(rung.before)}."
    if head.ideas:
        return f"{title}\n\nAll but the innermost loops: they multiply a tile in registers, as in {link(rung.before)}."
    old, new = (_code_lines(file) for file in (rung.before.files[0], rung.files[0]))
    lines = "\n".join(unified_diff(old, new, rung.before.files[0].name, rung.files[0].name, n=2, lineterm=""))
    return f"{title}\n\n```diff\n{lines}\n```"


def _parameters(lesson: Lesson) -> str:
    rung = lesson.rung
    if not rung.params:
        return "## Its parameters\n\nThis rung has no parameters."
    kinds = list(rung.defaults)
    titles = ["parameter", "meaning", *([f"on a {kind.upper()}" for kind in kinds] or ["default"]), "worth trying"]
    rows = [
        [
            f"`{param.name}`",
            param.meaning,
            *([str(rung.defaults[kind].get(param.name, "-")) for kind in kinds] or [str(param.default or "computed")]),
            ", ".join(map(str, param.choices)),
        ]
        for param in rung.params
    ]
    return f"## Its parameters\n\n{table(titles, rows)}"


def _questions(lesson: Lesson) -> str:
    rung = lesson.rung
    text = ["## Questions to try"]
    for count, question in enumerate(questions(rung), 1):
        text += [f"**{count}.** {question['ask']}", f"```bash\n{question['run']}\n```"]
        for kind, summary in FOLDED.items():
            if folded := question.get(kind):
                text.append(f"<details><summary>{summary}</summary>\n\n{folded.strip()}\n\n</details>")
    return "\n\n".join(text)


def _to_draw(rung_runs: Sequence[Run]) -> Run:
    """The run to draw: the user's, then one with the previous rung, and of these the one with the most sizes."""
    return max(rung_runs, key=lambda run: (run.file == OWN, run.has_previous, len(run.steps)))


def _rate(step: Step, key: str) -> float:
    return float(step.after["gflop"] / step.after[key])


def _title_before(rung: Rung) -> str:
    return rung.before.title if rung.before else ""


def _command(rung: Rung) -> str:
    names = [next(iter(one.backends.values())) for one in (rung.before, rung) if one]
    return f"gemmlab bench --backends {','.join(names)} --sizes 256,1024,2048 --cap 60"


def _code_lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()[first_line_of_code(file) - 1 :]
