"""The page of each rung, and an overview of all rungs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import unified_diff
from os.path import relpath
from pathlib import Path

from course.gains import Run, Step, bytes_per_multiply_add, first_entry, roofline, roofline_of_all, runs
from course.heads import Head, first_line_of_code, read_head
from course.rungs import ROOT, RUNTIME_NAMES, Rung, all_rungs, ladders, questions
from gemmlab.analysis.formatting import number, percent, sentence, threads_text
from gemmlab.measure.comparison import NO_DIFFERENCE

FOLDER = "rungs"
LEXER = {".pyx": "cython", ".cl": "c", ".hpp": "c++"}
HOW_MEASURED = {
    "CPU": "Whole calls, float32, medians",
    "GPU": "Kernels alone, by the device's own clock, float32, medians",
}
HOW_TO_READ = (
    "Higher is faster. Further right means fewer bytes from memory per operation, by the rung's traffic model. A "
    "sloped line is a measured bandwidth (if there is one), a horizontal line a measured multiply-add rate: together "
    "they are the roof over every product."
)
OVERVIEW_INTRODUCTION = """# All rungs at a glance

Each row compares a rung with the rung before it in the same run. Each name links to the page of the rung."""
DRAWN_ON = {"CPU": "cpu", "GPU": "opencl"}  # the runtime in the figure of a whole ladder
DASH, UNBROKEN_PERCENT = "–", "\u00a0%"


def all_pages() -> dict[str, str]:
    """The text of each page and figure, by path below docs/."""
    generated = {f"{FOLDER}/index.md": _overview()}
    for ladder, runtime in DRAWN_ON.items():
        generated[f"{FOLDER}/{ladder.lower()}-ladder.svg"] = roofline_of_all(ladder, runtime)
    for rung in all_rungs():
        generated[f"{FOLDER}/{rung.page}.md"] = page(rung)
        if rung_runs := runs(rung):
            generated[f"{FOLDER}/{rung.page}.svg"] = roofline(_most_sizes(rung_runs))
    return generated


def page(rung: Rung) -> str:
    """The page of one rung."""
    head = read_head(rung.files[0])
    sections: Sequence[Callable[[Rung, Head], str]] = (
        _title, _loop_nest, _traffic, _measured, _figure, _code, _difference, _parameters, _questions,
    )  # fmt: skip
    return "\n\n".join(filter(None, (section(rung, head) for section in sections))) + "\n"


def _title(rung: Rung, head: Head) -> str:
    position = f"Rung {rung.number} of {len(ladders()[rung.ladder])} of the {rung.ladder} ladder"
    where = f"`{rung.files[0].relative_to(ROOT)}`"
    if rung.ladder == "GPU":
        names = ", ".join(f"`{name}`" for name in rung.backends.values())
        where += f", run as {names}"
    return f"# {rung.title}\n\n{{.lead}}\n{sentence(head.idea)}\n\n{{.place}}\n{position}: {where}"


def _loop_nest(rung: Rung, head: Head) -> str:
    others = [read_head(file) for file in rung.files[1:]]
    loops = head.loops or next(other.loops for other in others if other.loops)
    remarks = [*head.remarks, *(remark for other in others[:1] for remark in other.remarks)]
    source = f"Source: {head.source or f'{rung.source}.'}"
    return "\n\n".join(["## The loop nest", f"```text\n{loops}\n```", *remarks, source])


def _traffic(rung: Rung, head: Head) -> str:
    text = f"## What it costs in traffic, and why\n\n{sentence(head.traffic)}"
    rung_runs = runs(rung)
    if not rung_runs:
        return text
    last = _headline(rung_runs[0])
    own = bytes_per_multiply_add(last.after)
    old = bytes_per_multiply_add(last.before) if last.before else {}
    titles = ["from", *([_title_before(rung)] if old else []), rung.title]
    rows = [[level, *([number(old.get(level))] if old else []), number(moved)] for level, moved in own.items()]
    levels = [[level, number(moved), DASH] for level, moved in old.items() if level not in own]
    caption = f"Bytes per multiply-add by the traffic models, at N = {last.n} on {rung_runs[0].machine}:"
    return f"{text}\n\n{caption}\n\n{_table(titles, rows + levels)}"


def _measured(rung: Rung, head: Head) -> str:
    text = [f"## {'What it gains' if rung.before else 'How fast it is'}"]
    rung_runs = runs(rung)
    if not rung_runs:
        return "\n\n".join([*text, f"There are no records of this rung here. To make some: `{_command(rung)}`"])
    first = _headline(rung_runs[0])
    text.append("{.gain}\n" + _gain_sentence(rung, rung_runs[0], first))
    if rung.before and not rung_runs[0].has_previous:
        text.append(f"No run recorded here has both this rung and {_link(rung.before)}. To compare them on your "
                    f"machine: `{_command(rung)}`")  # fmt: skip
    text.append(f"{HOW_MEASURED[rung.ladder]}; p20 to p80 in brackets. Each table is one run, from one file of "
                "records. [All results](../measured/README.md) has the commands.")  # fmt: skip
    text += [_gains_table(rung, run) for run in rung_runs]
    return "\n\n".join(text)


def _gain_sentence(rung: Rung, run: Run, step: Step) -> str:
    where = f"at N = {step.n} on {run.machine}{_runtime(step)}"
    speed = f"{number(step.after['gflop_per_s'])} GFLOP/s"
    if step.share_of_peak:
        threads = step.after["threads"]
        of = f" of {threads_text(threads)}" if threads else ""
        speed += f", {percent(step.share_of_peak)} of the measured peak{of}"
    if not step.before:
        return f"**{speed}**, {where}."
    times = step.gain.partition(" (")[0]
    seen = f"{times} times the speed of" if times != NO_DIFFERENCE else "No difference seen from"
    return f"**{seen} {_title_before(rung)}** {where}: {speed}.".replace(" %", UNBROKEN_PERCENT)


def _gains_table(rung: Rung, run: Run) -> str:
    titles = ["N", f"{_title_before(rung)}, GFLOP/s", f"{rung.title}, GFLOP/s", "times as fast", "of peak"]
    rows = [
        [
            str(step.n),
            number(step.before["gflop_per_s"]) if step.before else "",
            f"{number(step.after['gflop_per_s'])} ({number(_rate(step, 'p80_s'))} to {number(_rate(step, 'p20_s'))})",
            step.gain,
            percent(step.share_of_peak) if step.share_of_peak else DASH,
        ]
        for step in run.steps
    ]
    if not run.has_previous:
        titles, rows = _without(titles, 1, 3), [_without(row, 1, 3) for row in rows]
    elif all(step.share_of_peak is None for step in run.steps):
        titles, rows = _without(titles, 4), [_without(row, 4) for row in rows]
    caption = f"{sentence(run.machine)[:-1]}{_runtime(run.steps[0])} (`{run.file}`)"
    return f"**{caption}**\n\n{_table(titles, rows)}"


def _figure(rung: Rung, head: Head) -> str:
    rung_runs = runs(rung)
    if not rung_runs:
        return ""
    run = _most_sizes(rung_runs)
    compared = f" and {_title_before(rung)}" if run.has_previous else ""
    sizes = f"from N = {run.steps[0].n} to {run.steps[-1].n}" if len(run.steps) > 1 else f"at N = {run.steps[0].n}"
    what = f"{rung.title}{compared} {sizes}, on {run.machine}{_runtime(run.steps[0])}."
    options = f":alt: Roofline of {rung.title}{compared}, {sizes}\n:width: 100%"
    figure = f"```{{figure}} {rung.page}.svg\n{options}\n\n{what} {HOW_TO_READ}\n```"
    return f"## Its {'move' if run.has_previous else 'place'} on the roofline\n\n{figure}"


def _code(rung: Rung, head: Head) -> str:
    files = rung.files if len(rung.files) == 1 else rung.files[1:]
    text = ["## The code"]
    if len(rung.files) > 1:
        text.append("These are its two central files. [The ladder](../ladder.md#the-last-cpu-rung) lists all files in "
                    "reading order.")  # fmt: skip
    for file in files:
        options = f":language: {LEXER[file.suffix]}\n:lines: {first_line_of_code(file)}-\n:lineno-match:"
        path = relpath(file, ROOT / "docs" / FOLDER)
        caption = f"`{file.relative_to(ROOT)}`, without its head"
        text += [f"{caption}:", f"```{{literalinclude}} {path}\n{options}\n```"]
    return "\n\n".join(text)


def _difference(rung: Rung, head: Head) -> str:
    if rung.before is None:
        return ""
    title = f"## What changed since {_title_before(rung)}"
    if len(rung.files) > 1:
        return f"{title}\n\nEverything: it shares no line with {_link(rung.before)}."
    old, new = (_code_lines(file) for file in (rung.before.files[0], rung.files[0]))
    lines = "\n".join(unified_diff(old, new, rung.before.files[0].name, rung.files[0].name, n=2, lineterm=""))
    return f"{title}\n\n```diff\n{lines}\n```"


def _parameters(rung: Rung, head: Head) -> str:
    if not rung.params:
        return "## Its parameters\n\nThis rung has no parameters."
    kinds = list(rung.defaults)
    titles = ["parameter", "meaning", *([f"on a {kind.upper()}" for kind in kinds] or ["default"]), "worth trying"]
    rows = [
        [
            f"`{param.name}`",
            param.meaning,
            *([str(rung.defaults[kind][param.name]) for kind in kinds] or [str(param.default or "computed")]),
            ", ".join(map(str, param.choices)),
        ]
        for param in rung.params
    ]
    return f"## Its parameters\n\n{_table(titles, rows)}"


def _questions(rung: Rung, head: Head) -> str:
    text = ["## Questions to try"]
    for count, question in enumerate(questions(rung), 1):
        text += [f"**{count}.** {question['ask']}", f"```bash\n{question['run']}\n```"]
        if hint := question.get("hint"):
            text.append(f"<details><summary>A hint</summary>\n\n{hint}\n\n</details>")
    return "\n\n".join(text)


def _overview() -> str:
    text = [OVERVIEW_INTRODUCTION]
    for ladder, rungs in ladders().items():
        rows = []
        for rung in rungs:
            rung_runs = runs(rung)
            step = _headline(rung_runs[0]) if rung_runs else None
            speed = f"{number(step.after['gflop_per_s'])}" if step else DASH
            share = percent(step.share_of_peak) if step and step.share_of_peak else DASH
            gain = step.gain.partition(" (")[0] if step and step.before else DASH
            where = f"N = {step.n}, {rung_runs[0].machine}{_runtime(step)}" if step else DASH
            rows.append([f"[{rung.title}]({rung.page}.md)", rung.summary, speed, share, gain, where])
        titles = ["rung", "idea", "GFLOP/s", "of peak", "times the rung before", "measured at"]
        text += [f"## The {ladder} ladder", _table(titles, rows), _figure_of_all(ladder)]
    return "\n\n".join(text) + "\n"


def _figure_of_all(ladder: str) -> str:
    machine = first_entry(ladder)["machine"]
    options = f":alt: Roofline of the {ladder} ladder\n:width: 100%"
    runtime = DRAWN_ON[ladder]
    through = f" through {RUNTIME_NAMES[runtime]}" if runtime in RUNTIME_NAMES else ""
    what = f"The rungs, and the baselines (hollow and dashed), on {machine}{through}."
    return f"```{{figure}} {ladder.lower()}-ladder.svg\n{options}\n\n{what} {HOW_TO_READ}\n```"


def _most_sizes(rung_runs: Sequence[Run]) -> Run:
    """The run to draw: one with the previous rung if there is any, and of these the one with the most sizes."""
    return max(rung_runs, key=lambda run: (run.has_previous, len(run.steps)))


def _headline(run: Run) -> Step:
    """The largest product of a run that both rungs have, or else the largest product."""
    return max(run.steps, key=lambda step: (step.before is not None, step.n))


def _rate(step: Step, key: str) -> float:
    return float(step.after["gflop"] / step.after[key])


def _runtime(step: Step) -> str:
    runtime = str(step.after["backend"]).partition("-")[0]
    return f" through {RUNTIME_NAMES[runtime]}" if runtime in RUNTIME_NAMES else ""


def _title_before(rung: Rung) -> str:
    return rung.before.title if rung.before else ""


def _link(rung: Rung) -> str:
    return f"[{rung.title}]({rung.page}.md)"


def _command(rung: Rung) -> str:
    names = [next(iter(one.backends.values())) for one in (rung.before, rung) if one]
    return f"gemmlab bench --backends {','.join(names)} --sizes 256,1024,2048 --cap 60"


def _code_lines(file: Path) -> list[str]:
    return file.read_text(encoding="utf-8").splitlines()[first_line_of_code(file) - 1 :]


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines).replace(" %", UNBROKEN_PERCENT)


def _without(cells: Sequence[str], *columns: int) -> list[str]:
    return [cell for column, cell in enumerate(cells) if column not in columns]
