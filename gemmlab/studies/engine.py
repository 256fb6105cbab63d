"""Carrying a study out: who can take part, measuring them, and writing what came of it.

    line_up    backends and parameters of each contest, and why others cannot take part
    run        measure, then conclude; the records go to the file as they come
    conclude   from records to figures and text: this measures nothing
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from gemmlab import _registry
from gemmlab._cpu import machine
from gemmlab._errors import BackendUnavailable
from gemmlab._gpu import RUNTIMES
from gemmlab.measure.environment import environment
from gemmlab.measure.problems import Case, sized
from gemmlab.measure.records import RecordFile, complete
from gemmlab.measure.session import Params
from gemmlab.report import job, require
from gemmlab.report.findings import Finding
from gemmlab.studies.curves import Part, of_study, parts
from gemmlab.studies.findings import judged
from gemmlab.studies.study import Entry, Record, Study
from gemmlab.studies.text import text_of

Contest = dict[str, Params]
Keep = Callable[[dict[str, Any]], None]
QUICK_CAP_S = 0.5


@dataclass(frozen=True)
class Options:
    """What the caller wants otherwise; nothing said, every runtime and the source's own sizes."""

    runtimes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    quick: bool = False
    threads: int | None = None
    cap_s: float | None = None

    @property
    def rounds(self) -> int:
        """Turns of each backend at a product."""
        return 2 if self.quick else 5

    @property
    def budget_s(self) -> float:
        """Seconds of timing of each backend at a product."""
        return 0.1 if self.quick else 1.0


@dataclass(frozen=True)
class Task:
    """One contest to measure, for an experiment that has its own way to do it."""

    cases: Sequence[Case]
    contest: Contest
    options: Options
    keep: Keep
    progress: job.Progress


@dataclass(frozen=True)
class Outcome:
    """What came of a study: its records, the text and the files that were written, and the findings by part."""

    study: Study
    records: Sequence[Record]
    text: str
    files: list[Path]
    findings: list[tuple[Part, list[Finding]]]

    @property
    def failed(self) -> bool:
        """Whether a product came out wrong or not at all."""
        return any(record["status"] in ("wrong", "failed") for record in of_study(self.study, self.records))

    def to_dict(self) -> dict[str, Any]:
        """The findings and the files as JSON can carry them."""
        found = [{"where": part.title, "findings": [asdict(one) for one in own]} for part, own in self.findings]
        return {"study": self.study.name, "parts": found, "files": [str(path) for path in self.files]}


def line_up(study: Study, options: Options) -> tuple[list[Contest], dict[str, str]]:
    """Sort those who can take part into contests, one for each runtime unless runtimes are compared.

    Returns
    -------
    contests : list of dict
        Parameters by backend. What runs on no runtime is in the first.
    absent : dict
        Why others cannot run, by backend.

    Raises
    ------
    BackendUnavailable
        If only yardsticks are left, or nobody, also on a runtime that was named.
    ValueError
        For a runtime that is none, one that is named to a study of CPUs, or two devices of one where they are compared.
    """
    _check(study, options.runtimes)
    absent: dict[str, str] = {}

    def able(entries: Sequence[Entry], runtime: str = "") -> Contest:
        contest: Contest = {}
        for entry in entries:
            names = entry.names(runtime)
            name = next((name for name in names if _registry.availability(name).ok), None)
            if name is None:
                absent[names[0]] = _registry.why_not_here(_registry.availability(names[0]))
            else:
                contest[name] = entry.params[: entry.brief] if options.quick else entry.params
        return contest

    on_host = able([entry for entry in study.entries if not entry.on_runtime])
    on_runtime = [entry for entry in study.entries if entry.on_runtime]
    asked = [able(on_runtime, runtime) for runtime in options.runtimes or RUNTIMES] if on_runtime else []
    contests = list(filter(None, asked))
    yardsticks = {name for entry in study.entries if entry.yardstick for name in entry.names("")}
    if (options.runtimes and contests != asked) or (not contests and on_host.keys() <= yardsticks):
        reasons: dict[str, list[str]] = {}
        for name, why in absent.items():
            reasons.setdefault(why, []).append(name)
        said = "; ".join(f"{', '.join(names)} {why}" for why, names in reasons.items())
        raise BackendUnavailable(f"{study.name} has nothing to measure here: {said}")
    if study.together:
        contests = [{name: params for contest in contests for name, params in contest.items()}]
    first, *others = contests or [{}]
    return [on_host | first, *others], absent


def _check(study: Study, runtimes: Sequence[str]) -> None:
    plain = [runtime.partition(":")[0] for runtime in runtimes]
    for name in plain:
        if name not in RUNTIMES:
            raise ValueError(f"a runtime is one of {', '.join(RUNTIMES)}, such as cuda or opencl:1, not {name!r}")
    if runtimes and not study.on_runtimes:
        raise ValueError(f"{study.name} runs on the CPU alone: leave the runtime out")
    if study.together and len(set(plain)) < len(plain):
        raise ValueError(f"{study.name} compares runtimes, so it takes one device of each")


def run(study: Study, options: Options, directory: Path, progress: job.Progress) -> Outcome:
    """Measure a study, and write its records, figures and text into a directory.

    Interrupted, it writes what was measured so far, and raises KeyboardInterrupt again.

    Raises
    ------
    BackendUnavailable
        If nothing can be measured here.
    CannotWrite
        If the directory cannot be written, before anything is measured.
    ReportUnavailable
        If a package that draws is missing, before anything is measured.
    """
    require()
    contests, absent = line_up(study, options)
    job.make_folder(directory)
    records: list[dict[str, Any]] = []
    try:
        with RecordFile(directory / "records.jsonl") as file:

            def keep(record: dict[str, Any]) -> None:
                records.append(record)
                file.write(record)

            _measure(study, options, contests, absent, keep, progress)
    except KeyboardInterrupt:
        if of_study(study, records):
            conclude(study, records, directory)
        raise
    return conclude(study, records, directory)


def conclude(study: Study, records: Sequence[Record], directory: Path) -> Outcome:
    """Draw and judge records of a study into a directory: a text, and figures as SVG and PNG.

    Raises
    ------
    ValueError
        If there is no record of the study.
    """
    require()
    from gemmlab.report.album import numbered
    from gemmlab.report.drawing import save
    from gemmlab.report.folder import written_into
    from gemmlab.studies.figure import drawings

    if not of_study(study, records):
        raise ValueError(f"no records of the study {study.name}: gemmlab study {study.name} measures them")
    found = parts(study, records)
    text = text_of(study, found, records)
    names: list[str] = []
    twins: Counter[str] = Counter()
    with written_into(directory) as drafts:
        (drafts / f"{study.name}.txt").write_text(text + "\n", encoding="utf-8")
        for part in found:
            stem = numbered(part.slug, twins[part.slug])
            twins[part.slug] += 1
            for ending, figure in drawings(part):
                names.append(f"{stem}{ending}")
                save(figure, drafts / names[-1])
        for ending, figure in study.drawings(of_study(study, records)) if study.drawings is not None else ():
            names.append(f"{study.name}{ending}")
            save(figure, drafts / names[-1])
    files = [directory / f"{study.name}.txt"]
    files += [directory / f"{name}{ending}" for name in names for ending in (".svg", ".png")]
    return Outcome(study, of_study(study, records), text, files, [(part, judged(study, part)) for part in found])


def _measure(
    study: Study, options: Options, contests: Sequence[Contest], absent: Mapping[str, str], keep: Keep,
    progress: job.Progress,
) -> None:  # fmt: skip
    sizes = options.sizes or (study.quick_sizes if options.quick else study.sizes)
    cases = sized(sizes, suite=study.name)
    run_id = uuid.uuid4().hex[:12]
    facts = environment(pools=[])

    def completed(record: dict[str, Any]) -> None:
        keep(complete(record, run_id=run_id, device=record.pop("device"), environment=facts))

    for name, why in absent.items():
        completed(_absence(name, why, cases[-1]))
    for number, contest in enumerate(contests):
        show = partial(_show_part, progress, number, len(contests))
        if study.measure is not None:
            study.measure(Task(cases, contest, options, completed, show))
        else:
            job.carry_out(_plan(study, options, cases, contest), run_id, show, keep)


def _plan(study: Study, options: Options, cases: Sequence[Case], contest: Contest) -> job.Plan:
    cap_s = options.cap_s or (min(study.cap_s, QUICK_CAP_S) if options.quick else study.cap_s)
    return job.Plan(
        cases, list(contest), options.threads, ceilings_s=0.0 if options.quick else study.ceilings_s, cap_s=cap_s,
        rounds=options.rounds, budget_s=options.budget_s, params=contest, transfers=study.transfers,
    )  # fmt: skip


def _absence(backend: str, why: str, case: Case) -> dict[str, Any]:
    """A record of a backend that cannot run here."""
    return {
        "kind": "gemm", "status": "skipped", "reason": why, "backend": _registry.plain(backend), "params": {},
        "problem": replace(case, label="").problem(), "gflop": case.gflop, "device": machine.cpu_name(),
        "bytes_compulsory": case.bytes_compulsory,
    }  # fmt: skip


def _show_part(progress: job.Progress, number: int, of: int, done: int, total: int, doing: str) -> None:
    progress(number * total + done, of * total, doing)
