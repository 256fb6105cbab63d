"""Running a study: which backends can take part, measuring them, and writing figures and text from the records."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from gemmlab import _registry
from gemmlab._errors import BackendUnavailable
from gemmlab._gpu import RUNTIMES
from gemmlab._name import BackendName
from gemmlab.analysis.findings import Finding
from gemmlab.campaign import Campaign, carry_out, make_directory
from gemmlab.measure.environment import environment
from gemmlab.measure.isolated.backend import Params
from gemmlab.measure.problems import Case, sized
from gemmlab.measure.records import Record, RecordFile, complete
from gemmlab.measure.session import Progress, Settings
from gemmlab.report import require
from gemmlab.studies import isolated
from gemmlab.studies.curves import Scenario, of_study, scenarios
from gemmlab.studies.judges import judged
from gemmlab.studies.study import Entry, Study
from gemmlab.studies.summary import text_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Contest = dict[str, Params | Sequence[Params]]  # the backends to compare, with their parameters
Keep = Callable[[Record], None]
QUICK_CAP_S = 0.5


@dataclass(frozen=True)
class Options:
    """What the caller wants other than every runtime and the source's sizes."""

    runtimes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    quick: bool = False
    threads: int | None = None
    cap_s: float | None = None

    @property
    def rounds(self) -> int:
        """Rounds of samples for each product."""
        return 2 if self.quick else 5

    @property
    def budget_s(self) -> float:
        """Seconds of timing for each backend at a product."""
        return 0.1 if self.quick else 1.0


@dataclass(frozen=True)
class Task:
    """One contest to measure, for a study with a function `measure`."""

    cases: Sequence[Case]
    contest: Contest
    options: Options
    keep: Keep
    progress: Progress


@dataclass(frozen=True)
class Outcome:
    """The results of a study: its records, the text and the files that were written, and the findings by scenario."""

    study: Study
    records: Sequence[Record]
    text: str
    files: list[Path]
    findings: list[tuple[Scenario, list[Finding]]]

    @property
    def failed(self) -> bool:
        """Whether a product came out wrong or failed."""
        return any(record["status"] in ("wrong", "failed") for record in self.records)

    def to_dict(self) -> dict[str, object]:
        """The findings and the files as JSON can carry them."""
        found = [{"where": own.title, "findings": list(map(asdict, findings))} for own, findings in self.findings]
        return {"study": self.study.name, "parts": found, "files": list(map(str, self.files))}


def line_up(study: Study, options: Options) -> tuple[list[Contest], dict[str, str]]:
    """Sort the backends that can run into contests, one for each runtime unless runtimes are compared.

    It returns the contests, with the backends of the host in the first, and why other backends cannot run.

    Raises
    ------
    BackendUnavailable
        If only references are left, or a runtime that was named has no backend.
    ValueError
        For an unknown runtime, a runtime for a study of CPUs, or two devices of one where runtimes are compared.
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
                contest[name] = entry.params[: entry.quick_count] if options.quick else entry.params
        return contest

    on_host = able([entry for entry in study.entries if not entry.on_runtime])
    on_runtime = [entry for entry in study.entries if entry.on_runtime]
    asked = [able(on_runtime, runtime) for runtime in options.runtimes or RUNTIMES] if on_runtime else []
    contests = list(filter(None, asked))
    references = {name for entry in study.entries if entry.reference for name in entry.names("")}
    if (options.runtimes and contests != asked) or (not contests and on_host.keys() <= references):
        said = "; ".join(f"{name} {why}" for name, why in absent.items())
        raise BackendUnavailable(f"{study.name} has nothing to measure here: {said}")
    if study.together:
        contests = [{name: params for contest in contests for name, params in contest.items()}]
    first, *others = contests or [{}]
    return [on_host | first, *others], absent


def _check(study: Study, runtimes: Sequence[str]) -> None:
    plain = [BackendName.of(runtime).plain for runtime in runtimes]
    for name in plain:
        if name not in RUNTIMES:
            raise ValueError(f"a runtime is one of {', '.join(RUNTIMES)}, such as cuda or opencl:1, not {name!r}")
    if runtimes and not study.on_runtimes:
        raise ValueError(f"{study.name} runs on the CPU alone: leave the runtime out")
    if study.together and len(set(plain)) < len(plain):
        raise ValueError(f"{study.name} compares runtimes, so it takes one device of each")


def run(study: Study, options: Options, directory: Path, progress: Progress) -> Outcome:
    """Measure a study, and write its records, figures and text into a directory.

    Interrupted, it writes what was measured so far, and raises KeyboardInterrupt again.

    Raises
    ------
    BackendUnavailable
        If nothing can be measured here.
    CannotWrite, ReportUnavailable
        If the directory cannot be written or a package that draws is missing, before anything is measured.
    """
    require()
    contests, absent = line_up(study, options)
    make_directory(directory)
    records: list[Record] = []
    try:
        with RecordFile(directory / "records.jsonl", records) as file:
            _measure(study, options, contests, absent, file.write, progress)
    except KeyboardInterrupt:
        if of_study(study, records):
            conclude(study, records, directory)
        raise
    return conclude(study, records, directory)


def conclude(study: Study, records: Sequence[Record], directory: Path) -> Outcome:
    """Judge and draw the records of a study into a directory: a text, and figures as SVG and PNG.

    Raises
    ------
    ValueError
        If there is no record of the study.
    """
    require()
    from gemmlab.report.directory import written_into
    from gemmlab.report.drawing import save
    from gemmlab.report.figure_set import ENDINGS, numbered
    from gemmlab.studies.speed_up_figure import figures_of

    own = of_study(study, records)
    if not own:
        raise ValueError(f"no records of the study {study.name}: gemmlab study {study.name} measures them")
    found = scenarios(study, records)
    text = text_of(study, found, records)
    figures: dict[str, Figure] = {}
    same_slug: Counter[str] = Counter()
    for scenario in found:
        name = numbered(scenario.slug, same_slug[scenario.slug])
        same_slug[scenario.slug] += 1
        figures |= {f"{name}{ending}": figure for ending, figure in figures_of(scenario)}
    with written_into(directory) as drafts:
        (drafts / f"{study.name}.txt").write_text(text + "\n", encoding="utf-8")
        for name, figure in figures.items():
            save(figure, drafts / name)
    files = [f"{study.name}.txt", *(f"{name}{ending}" for name in figures for ending in ENDINGS)]
    findings = [(scenario, judged(study, scenario)) for scenario in found]
    return Outcome(study, own, text, [directory / name for name in files], findings)


def _measure(
    study: Study, options: Options, contests: Sequence[Contest], absent: Mapping[str, str], keep: Keep,
    progress: Progress,
) -> None:  # fmt: skip
    sizes = options.sizes or (study.quick_sizes if options.quick else study.sizes)
    cases = sized(sizes, study.dtype, suite=study.name)
    run_id = uuid.uuid4().hex[:12]
    facts = environment(pools=[])

    def completed(record: Record) -> None:
        keep(complete(record, run_id=run_id, device=record.pop("device"), environment=facts))

    for name, why in absent.items():
        completed(isolated.untimed(name, replace(cases[-1], label=""), isolated.NoAnswer(why, "skipped")))
    for number, contest in enumerate(contests):
        show = partial(_part_of, progress, number, len(contests))
        if study.measure is not None:
            study.measure(Task(cases, contest, options, completed, show))
        else:
            carry_out(_campaign(study, options, cases, contest), run_id, show, keep)


def _campaign(study: Study, options: Options, cases: Sequence[Case], contest: Contest) -> Campaign:
    cap_s = options.cap_s or (min(study.cap_s, QUICK_CAP_S) if options.quick else study.cap_s)
    settings = Settings(
        params=contest, threads=options.threads, transfers=study.transfers, cap_s=cap_s, rounds=options.rounds,
        budget_s=options.budget_s,
    )  # fmt: skip
    return Campaign(cases, list(contest), settings, ceilings_s=0.0 if options.quick else study.ceilings_s)


def _part_of(progress: Progress, number: int, parts: int, done: int, total: int, doing: str) -> None:
    progress(number * total + done, parts * total, doing)
