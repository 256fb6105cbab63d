"""The studies: as data, judged on made-up records, carried out by a made-up worker, and run for real where they can."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from itertools import product
from pathlib import Path

import fake_worker
import made_up_records as made
import pytest
from devices import FIRST_PLACES
from helpers import DOCS, SUPPORT
from sweeps import swept

import gemmlab
from gemmlab import BackendUnavailable, _registry, studies
from gemmlab._backend import Availability
from gemmlab._gpu import RUNG_NAMES, RUNTIMES
from gemmlab._gpu.ladder.rungs import RUNGS
from gemmlab._gpu.runtime import Device
from gemmlab._name import BackendName
from gemmlab.analysis.findings import papers
from gemmlab.campaign import measuring, turns
from gemmlab.cli import main
from gemmlab.measure import Session, read, write
from gemmlab.studies import STUDIES, Options, cold_start, engine, gpp, memory_modes, pair_counts, postings
from gemmlab.studies.curves import scenarios, speed_ups
from gemmlab.studies.judges import EACH, MORE, At, Faster, best_at, judged, passes
from gemmlab.studies.study import Entry, Study
from gemmlab.studies.summary import SOURCES, text_of

NAMES = ("cpu-ladder", "gpu-ladder", "cpu-vs-gpu", "work-group-size", "platforms", "tile-size", "input-registers",
         "cold-start", "memory-modes", "gpp", "postings")  # fmt: skip
PAPERS = papers()
HOMES = [str(Path(gemmlab.__file__).parents[1]), str(SUPPORT)]
FAKE = (sys.executable, "-c", f"import sys; sys.path[:0] = {HOMES}; import fake_worker; fake_worker.main()")
GPU = Device("opencl", 0, made.GPU, "gpu", "p", "d", 8, 1024, 48 << 10, 8 << 30, 2 << 30, True)
pytestmark = [
    pytest.mark.usefixtures("quick_builds"),
    pytest.mark.skipif(not find_spec("matplotlib") or not find_spec("jinja2"), reason="needs the extra report"),
]


def nothing(*step):
    """A progress display that shows nothing."""


def gpu(study, backend, n, gflop_per_s, label=None, transfers=False, spread=0.03, **overrides):
    """A record of a study on the made-up GPU."""
    names = {"suite": study.name, "label": label or str(n), "spread": spread}
    return made.gpu_product(backend, n, gflop_per_s, transfers, **names) | overrides


def cpu(study, backend, n, gflop_per_s, **overrides):
    return made.gemm(backend, n, gflop_per_s, suite=study.name, **overrides)


def ladder(rates, sizes=(512, 2048, 4032), **overrides):
    study = STUDIES["gpu-ladder"]
    return [gpu(study, f"cuda-{name}", n, rate, **overrides) for name, rate in rates.items() for n in sizes]


def verdicts(study, records):
    """What is said of each claim, in the first part."""
    found = scenarios(study, records)
    return {finding.claim: finding for finding in judged(study, found[0])}


def text(study, records):
    return text_of(study, scenarios(study, records), records)


# as data


def test_there_are_eleven_of_the_sources_and_five_of_our_own():
    ours = "pair-counts", "cache-model", "emulation", "co-execution", "tuned-steps", "tensor-steps"
    assert tuple(STUDIES) == (*NAMES, *ours)
    for study in map(STUDIES.get, NAMES):
        assert study.question.endswith("?")
        assert study.timed.endswith(".")
        assert all(letter in PAPERS["sources"] and letter in SOURCES for letter in study.source.split(", "))
        assert set(study.quick_sizes) <= set(study.sizes) | set(range(1009))


@pytest.mark.parametrize("name", NAMES)
def test_what_takes_part_exists_and_takes_its_parameters(name):
    for entry in STUDIES[name].entries:
        for runtime in RUNTIMES if entry.on_runtime else ("",):
            assert {BackendName.of(name).plain for name in entry.names(runtime)} <= _registry.BUILT_IN.keys()
        for rung in RUNGS:
            if entry.backend == f"RT-{rung.name}":
                for params in entry.params:
                    assert params.keys() <= {param.name for param in rung.params}
                    assert rung.refusal(rung.resolve(params, "gpu"), "float32", GPU) is None


def test_a_name_has_its_runtime_and_device():
    assert Entry("RT-local").names("opencl:1") == ["opencl-local:1"]
    assert Entry("RT-vendor").names("cuda") == ["cuda-cublas"]
    assert Entry("cpu-mkl", fallbacks=("cpu-blas",)).names("sycl") == ["cpu-mkl", "cpu-blas"]


def test_the_ladders_have_every_rung():
    assert [entry.backend for entry in STUDIES["gpu-ladder"].entries] == [f"RT-{n}" for n in RUNG_NAMES] + ["RT-vendor"]
    assert {entry.backend for entry in STUDIES["cpu-ladder"].entries} >= {"cpu-naive", "cpu-blocked-local", "cpu-mkl"}


def test_the_sources_speed_ups_follow_from_its_times():
    study, table = STUDIES["platforms"], PAPERS["X.table3_speedup"]
    ours = speed_ups(study, study.theirs)
    for line, column in (("OpenMP", "openmp"), ("CUDA", "cuda"), ("OpenCL", "opencl_nvidia")):
        assert list(ours[line].values()) == pytest.approx(table[column], rel=0.01)


def test_work_groups_are_those_of_the_source():
    study = STUDIES["work-group-size"]
    for entry in study.entries:
        items = {study.x({"params": params}) for params in entry.params}
        assert items == set(PAPERS["X.table1_work_group_size"]["work_items"])


def test_a_name_that_is_none():
    with pytest.raises(ValueError, match="did you mean gpu-ladder or cpu-ladder"):
        studies.named("gpu-lader")


# judged


def test_a_finding_that_holds_says_with_which_numbers():
    found = verdicts(STUDIES["gpu-ladder"], ladder({"naive": 300, "private": 330, "local": 720, "local4": 1000}))
    local = found["local over private at N = 4032, speed-up"]
    assert (local.holds, local.theirs, local.band) == (True, "2.2 times", "1.87 to 2.53 times")
    assert local.text == "Holds here: 2.18 times (2.12 to 2.25)."


def test_a_finding_that_does_not_hold_says_why():
    records = ladder({"naive": 300, "private": 330, "local": 340, "local4": 5000}, spread=0.2)
    found = verdicts(STUDIES["gpu-ladder"], records)
    same = found["local over private at N = 4032, speed-up"]
    more = found["local4 over private at N = 4032, speed-up"]
    assert (same.holds, more.holds) == (False, False)
    assert "no difference seen" in same.text
    assert "local is noisy: its p20 and p80 are 20 % apart." in same.text
    assert "more than the source found" in more.text


def test_reasons_are_those_of_the_records():
    study = STUDIES["gpu-ladder"]
    on_cpu = ladder({"private": 300, "local": 310}, device=f"{made.DEVICE} (PoCL)")
    assert "The device is the CPU itself" in verdicts(study, on_cpu)["local over private at N = 4032, speed-up"].text
    at_peak = ladder({"private": 12000, "local": 12100}, spread=0.01) + made.gpu_ceilings()
    assert "bound by arithmetic" in verdicts(study, at_peak)["local over private at N = 4032, speed-up"].text
    served = [record | {"bytes_model_l1": 8 * 4032**3} for record in ladder({"private": 900, "local": 930})]
    text = verdicts(study, served + made.gpu_ceilings())["local over private at N = 4032, speed-up"].text
    assert "Caches serve private: it reads 3600 GB/s, and memory gives 700." in text
    alone = ladder({"private": 300, "local": 303}, spread=0.05)
    assert verdicts(study, alone)["local over private at N = 4032, speed-up"].text.endswith("do not show why.")


def test_what_was_not_measured_is_not_judged():
    found = verdicts(STUDIES["gpu-ladder"], ladder({"private": 330}))
    local = found["local over private, speed-up"]
    assert (local.holds, local.text) == (None, "Cannot be judged: local has no time here.")


@pytest.mark.parametrize(
    ("vendor", "holds"),
    [({512: 1, 2048: 1, 4032: 9}, True), ({512: 9, 2048: 9, 4032: 9}, False), ({512: 9, 2048: 1, 4032: 9}, False),
     ({512: 1, 2048: 1}, None), ({512: 1, 2048: 1, 4032: 1}, False), ({}, None)],
)  # fmt: skip
def test_where_one_line_passes_another(vendor, holds):
    study = STUDIES["gpu-ladder"]
    records = ladder({"local4": 5}) + [gpu(study, "cuda-cublas", n, rate) for n, rate in vendor.items()]
    finding, = passes("vendor", "local4", 2496, study, scenarios(study, records)[0])
    assert finding.holds is holds


def groups(rates):
    study = STUDIES["work-group-size"]
    return [gpu(study, "cuda-private", 600, rate, params={"group_x": 32, "group_y": items // 32})
            for items, rate in rates.items()]  # fmt: skip


@pytest.mark.parametrize(
    ("rates", "holds", "said"),
    [({64: 100, 192: 243, 256: 200}, True, "Holds here: 192."),
     ({64: 100, 192: 101}, False, "64 and 192 (no difference seen between them)."),
     ({64: 100, 192: 200, 256: 201}, True, "Holds here: 192 and 256 (no difference seen between them)."),
     ({64: 300, 192: 100}, False, "64; 192 takes 3 times as long."),
     ({64: 300, 128: 100}, None, "192 was not measured")],
)  # fmt: skip
def test_where_a_line_is_fastest(rates, holds, said):
    study = STUDIES["work-group-size"]
    finding, = best_at(192, study, scenarios(study, groups(rates))[0])
    assert finding.holds is holds
    assert said in finding.text


def test_every_line_is_judged_where_all_are_meant():
    study = STUDIES["cpu-vs-gpu"]
    records = [cpu(study, "cpu-mkl", 4032, 900.0)]
    records += [gpu(study, name, 4032, 9000.0, transfers=True) for name in ("opencl-clblast", "cuda-cublas")]
    found = verdicts(study, records)
    assert {claim.partition(",")[0]: finding.holds for claim, finding in found.items() if "4032" in claim} == {
        "CPU over clblast at N = 4032": False, "CPU over cublas at N = 4032": False,
    }  # fmt: skip
    assert "The peaks of the source's machine are 920 GFLOP/s" in found["CPU over cublas at N = 4032, speed-up"].text
    assert found["CPU over cublas at N = 16128, speed-up"].text == "Cannot be judged: N = 16128 was not measured."


def test_the_sources_own_figure_for_the_very_point():
    study = STUDIES["platforms"]
    records = [cpu(study, "cpu-naive", 200, 1.0, threads=1), cpu(study, "cpu-ikj", 200, 4.0)]
    finding = verdicts(study, records)["OpenMP over serial at N = 200, speed-up"]
    assert (finding.theirs, finding.holds) == ("3.17 times", True)


def tiles(rates):
    study = STUDIES["tile-size"]
    return [cpu(study, "cpu-naive", 512, 2.0, threads=1)] + [
        gpu(study, "cuda-register", 512, rate, params={"tile_y": y, "tile_x": x}) for (y, x), rate in rates.items()
    ]


def test_tiles_that_grow_too_large():
    found = verdicts(STUDIES["tile-size"], tiles({(8, 8): 900, (32, 32): 1}))
    assert [finding.holds for finding in found.values()] == [True, True]
    found = verdicts(STUDIES["tile-size"], tiles({(2, 2): 900, (8, 8): 300}))
    text = found["register, fastest by tile of C"].text
    assert "2x2; 8x8 takes 3 times as long." in text


def test_the_cpu_ladder_is_judged_as_the_report_does():
    study = STUDIES["cpu-ladder"]
    records = made.ceilings() + [record | {"problem": record["problem"] | {"suite": study.name}}
                                 for record in made.ladder()]  # fmt: skip
    found = verdicts(study, records)
    assert len(found) == 5
    assert "cpu-blocked over cpu-ikj, speed-up" in found
    assert all(finding.text.count("does not hold") == 0 for finding in found.values())


def test_the_cpu_ladder_names_the_cache_that_feeds_the_slow_rung():
    study = STUDIES["cpu-ladder"]
    rungs = made.gemm("cpu-ikj", 1008, 40, intensity=0.5), made.gemm("cpu-blocked", 1008, 60, intensity=20)
    records = [record | {"problem": record["problem"] | {"suite": study.name}} for record in rungs]
    finding = verdicts(study, made.ceilings() + records)["cpu-blocked over cpu-ikj, speed-up"]
    assert finding.holds is False
    assert "L3 feeds ikj with 2 bytes per flop: 80 GB/s of the measured 120; memory gives 40." in finding.text


def stages(source_s, disk_s, build_s):
    study = STUDIES["cold-start"]
    rows = {"source": (source_s, 1.0), "disk": (disk_s, build_s), "loaded": (0.01, None)}
    return [gpu(study, "cuda-local", 256, 1.0, label, transfers=True) | made.times(time_s)
            | {"build_s": build, "start_s": build and 0.3} for label, (time_s, build) in rows.items()]  # fmt: skip


@pytest.mark.parametrize(("build_s", "holds"), [(0.01, True), (0.06, False)])
def test_a_warm_disk_cache_has_a_bar(build_s, holds):
    found = verdicts(STUDIES["cold-start"], stages(2.0, 0.1, build_s))
    assert [finding.holds for finding in found.values()] == [True, holds]


def test_kernels_are_timed_by_the_devices_own_clock():
    clock = {"kernel_s": 1e-3, "kernel_p20_s": 0.9e-3, "kernel_p80_s": 1.2e-3}
    untold = {"kernel_s": None}
    older = {"kernel_s": 1e-6, "median_s": 2e-6, "p20_s": 1e-6, "p80_s": 4e-6}  # the spread of the whole stands in
    whole = {"median_s": 2e-6, "p20_s": 1e-6, "p80_s": 4e-6}
    known, *_ = ladder({"private": 300}, sizes=(64,), **clock)
    for given, times in (
        (clock, (1e-3, 0.9e-3, 1.2e-3)), (older, (1e-6, 0.5e-6, 2e-6)), (untold | whole, (2e-6, 1e-6, 4e-6)),
    ):  # fmt: skip
        record, = ladder({"private": 300}, sizes=(64,), **given)
        part, = scenarios(STUDIES["gpu-ladder"], [record])
        assert [part.products[0][key] for key in ("median_s", "p20_s", "p80_s")] == pytest.approx(list(times))
    part, = scenarios(STUDIES["gpu-ladder"], [known])
    assert part.products[0]["noisy"]
    assert part.products[0]["gflop_per_s"] == pytest.approx(known["gflop"] / 1e-3)


def test_parts_are_runtimes_devices_and_sizes():
    study = STUDIES["work-group-size"]
    records = groups({64: 1, 192: 2})
    records += [record | {"backend": "opencl-private"} for record in records]
    records += [record | {"problem": record["problem"] | {"n": 256}} for record in records]
    found = scenarios(study, [*records, made.gemm("cpu-ikj", 64)])
    assert [part.slug for part in found] == [f"{study.name}-{r}-n{n}" for n in (600, 256) for r in ("cuda", "opencl")]
    assert found[0].title == f"cuda on {made.GPU}, N = 600"


# text and figures


def whole(name):
    """Believable records of a study, with one that has no time."""
    study = STUDIES[name]
    if name == "cpu-ladder":
        own = [record | {"problem": record["problem"] | {"suite": name}} for record in made.ladder()]
        return [*made.ceilings(), *own]
    if name == "gpu-ladder":
        lost = made.not_run("cuda-cublas", "skipped", "cannot run here: none; fix: pip install it", suite=name)
        return [*made.gpu_ceilings(), *ladder(dict(zip(RUNG_NAMES, range(100, 900, 100), strict=False))), lost]
    if name == "cold-start":
        return stages(2.0, 0.1, 0.01)
    if name == "gpp":
        labels = [*gpp.ON_CPU, *gpp.ON_DEVICE, *(f"{gpp.FIRST}{kernel}" for kernel in ("source", "disk"))]
        return [cpu(study, "cpu-packed", 2048, 1.0 + i, label=label) if label in gpp.ON_CPU
                else gpu(study, "cuda-naive", 2048, 100.0 + 10 * i, label)
                for i, label in enumerate(labels)]  # fmt: skip
    if name == "postings":
        n = postings.MEAN
        return [record for lists in postings.COLLECTIONS for i in range(len(postings.ON_CPU)) for record in (
            cpu(study, "cpu-packed", n, 1.0 + i, label=postings.ON_CPU[i], params={"lists": lists}),
            *(gpu(study, "cuda-naive", n, 100.0 + i, label, params={"lists": lists})
              for label in postings.ON_DEVICE[i : i + 1]),
        )]  # fmt: skip
    if name == "pair-counts":
        return [cpu(study, "cpu-packed", 2000, 1.0 + i, label=f"1/{density}", params={"way": way})
                for way in ("bits", "sparse") for i, density in enumerate(pair_counts.DENSITIES)]  # fmt: skip
    if name == "memory-modes":
        modes = memory_modes.MODES["cuda"]
        return [gpu(study, "cuda-local", 512, 500.0 + 10 * i, mode, transfers=counted)
                for i, mode in enumerate(modes) for counted in (True, False)]  # fmt: skip
    records = []
    for entry in study.entries:
        for i, params in enumerate(entry.params):
            for n in study.quick_sizes:
                backend, rate = entry.names("cuda")[0], 100.0 + 10 * i
                counted = study.transfers == "with"
                records.append(
                    gpu(study, backend, n, rate, params={"length": 1, **params}, transfers=counted)
                    if entry.on_runtime else cpu(study, backend, n, 2.0)
                )
    return records


@pytest.mark.parametrize("name", NAMES)
def test_a_text_has_80_columns_and_the_sources_figures(name):
    told = text(STUDIES[name], whole(name))
    assert max(map(len, told.splitlines())) <= 80
    for part in (STUDIES[name].timed.split(".")[0].split(",")[0], "Speed-up over", "Source", "Timed"):
        assert part in " ".join(told.split())
    assert " finding" in told
    figures = {"platforms": "57.8 s", "work-group-size": "3.18 ms", "gpu-ladder": "2.2", "cpu-ladder": "2.72 s",
               "cpu-vs-gpu": "5.3 times", "input-registers": "about 4 times", "cold-start": "under 5 %"}  # fmt: skip
    assert figures.get(name, "") in told


def test_a_text_lists_what_was_not_measured():
    told = text(STUDIES["gpu-ladder"], whole("gpu-ladder"))
    assert "Not measured:\n  cuda-cublas" in told
    assert "fix: pip install it" in " ".join(told.split())


@pytest.mark.parametrize("name", NAMES)
def test_a_figure_is_drawn_from_records_alone(name, tmp_path):
    outcome = studies.conclude(STUDIES[name], whole(name), tmp_path / "out")
    assert {path.suffix for path in outcome.files} == {".txt", ".svg", ".png"}
    assert all(path.stat().st_size > 1000 for path in outcome.files)
    assert (tmp_path / "out" / f"{name}.txt").read_text() == outcome.text + "\n"
    assert ("roofline" in str(outcome.files)) is name.endswith("ladder")
    assert not outcome.failed
    json.dumps(outcome.to_dict())


def test_two_devices_of_a_runtime_have_a_figure_each(tmp_path):
    records = groups({64: 1, 192: 2})
    records += [record | {"device": "Another GPU"} for record in records]
    outcome = studies.conclude(STUDIES["work-group-size"], records, tmp_path)
    assert len(set(outcome.files)) == 5


def test_records_of_something_else_are_no_study(tmp_path):
    with pytest.raises(ValueError, match="no records of the study platforms"):
        studies.conclude(STUDIES["platforms"], whole("cpu-ladder"), tmp_path / "out")


# carried out


@pytest.fixture
def quickly(monkeypatch):
    """The peaks measured in a moment."""
    monkeypatch.setattr(turns, "PEAK_S", 0.02)


@pytest.fixture
def fake(monkeypatch, quickly):
    """The made-up worker's backends, also in this process."""
    monkeypatch.setattr(measuring, "Session", partial(Session, worker_command=FAKE))
    with contextlib.ExitStack() as stack:
        for backend in fake_worker.ALL:
            if backend is not fake_worker.Stillborn:
                stack.enter_context(_registry.registered(backend()))
        yield


def trial(*entries, **given):
    """A study of made-up backends."""
    defaults = {"sizes": (20, 30), "quick_sizes": (10,), "judges": (Faster(At(EACH), At("good"), 1.0, MORE),),
                "series": lambda record: record["backend"], "over_series": "good", "cap_s": 0.5}  # fmt: skip
    return Study("trial", "R", "Does it?", "All of it.", entries, **(defaults | given))


@pytest.mark.exhaustive
def test_a_study_is_measured_and_its_records_are_kept(fake, tmp_path):
    study = trial(Entry("good", ({"size": 2}, {"size": 4}), quick_count=1), Entry("slow"), Entry("absent"))
    outcome = studies.run(study, Options(sizes=(10, 700), cap_s=1.0, quick=True), tmp_path / "out", nothing)
    records = read(tmp_path / "out" / "records.jsonl")
    assert len({record["run_id"] for record in records}) == 1
    products = [record for record in records if record["kind"] == "gemm"]
    assert {record["problem"]["suite"] for record in products} == {"trial"}
    found = {(record["backend"], record["problem"]["n"]): record["status"] for record in products}
    assert found == {
        ("absent", 700): "skipped", ("good", 10): "ok", ("good", 700): "ok", ("slow", 10): "ok",
        ("slow", 700): "skipped",
    }  # fmt: skip
    assert "over the cap of 1 s" in " ".join(outcome.text.split())
    assert "there is no such device; fix: buy one" in outcome.text
    assert not outcome.failed
    again = studies.conclude(study, records, tmp_path / "again")
    assert again.text == outcome.text


@pytest.mark.exhaustive
def test_several_sets_of_parameters_take_part(fake, tmp_path):
    study = trial(Entry("good", ({"size": 2}, {"size": 4})), x=lambda record: record["params"]["size"], x_name="size",
                  over_series=None, over_x=2)  # fmt: skip
    studies.run(study, Options(sizes=(10,), quick=True), tmp_path, nothing)
    products = [record for record in read(tmp_path / "records.jsonl") if record["kind"] == "gemm"]
    assert [record["params"] for record in products] == [{"size": 2}, {"size": 4}]


@pytest.mark.exhaustive
def test_a_wrong_product_is_a_failure(fake, tmp_path):
    assert studies.run(trial(Entry("good"), Entry("off")), Options(sizes=(10,), quick=True), tmp_path, nothing).failed


def test_an_interrupted_study_keeps_what_it_has(fake, tmp_path):
    def until_half(done, total, doing):
        if 2 * done > total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        studies.run(trial(Entry("good")), Options(quick=True, sizes=(10, 11)), tmp_path, until_half)
    assert len([record for record in read(tmp_path / "records.jsonl") if record["kind"] == "gemm"]) == 2
    assert (tmp_path / "trial.txt").exists()


def test_nothing_but_references_is_no_study(fake, tmp_path):
    study = trial(Entry("good", reference=True), Entry("absent"))
    with pytest.raises(BackendUnavailable, match=r"absent cannot run here: there is no such device; fix: buy one"):
        studies.run(study, Options(), tmp_path / "out", nothing)
    assert not (tmp_path / "out").exists()


def test_who_stands_in_for_whom(fake):
    contests, absent = engine.line_up(trial(Entry("absent", fallbacks=("good",))), Options())
    assert (contests, absent) == ([{"good": ({},)}], {})


def test_runtimes_are_contests_apart_unless_they_are_compared(monkeypatch):
    able = lambda name: Availability(not name.startswith("cuda"), "none", "buy one")  # noqa: E731
    monkeypatch.setattr(_registry, "availability", able)
    contests, absent = engine.line_up(STUDIES["tile-size"], Options(quick=True))
    assert [list(contest) for contest in contests] == [["cpu-naive", "opencl-register"], ["sycl-register"]]
    assert absent == {"cuda-register": "cannot run here: none; fix: buy one"}
    contests, absent = engine.line_up(STUDIES["platforms"], Options(runtimes=("opencl:1", "sycl")))
    assert [list(contest) for contest in contests] == [["cpu-naive", "cpu-ikj", "opencl-local:1", "sycl-local"]]
    with pytest.raises(ValueError, match="takes one device of each"):
        engine.line_up(STUDIES["platforms"], Options(runtimes=("opencl:0", "opencl:1")))
    with pytest.raises(BackendUnavailable, match="cuda-local cannot run here: none; fix: buy one"):
        engine.line_up(STUDIES["platforms"], Options(runtimes=("opencl", "cuda")))
    with pytest.raises(ValueError, match="runs on the CPU alone"):
        engine.line_up(STUDIES["cpu-ladder"], Options(runtimes=("opencl",)))
    with pytest.raises(ValueError, match="a runtime is one of opencl, sycl, cuda"):
        engine.line_up(STUDIES["platforms"], Options(runtimes=("vulkan",)))


# for real


@pytest.mark.exhaustive
def test_the_cpu_ladder_for_real(quickly, tmp_path):
    study = replace(STUDIES["cpu-ladder"], entries=STUDIES["cpu-ladder"].entries[:4])
    outcome = studies.run(study, Options(quick=True, sizes=(64, 128)), tmp_path, nothing)
    assert not outcome.failed
    assert "cpu-blocked over cpu-ikj" in outcome.text


ON_SESSION = [name for name in NAMES[1:] if STUDIES[name].measure is None]


@pytest.mark.exhaustive
@pytest.mark.skipif(not FIRST_PLACES, reason="no device here")
@pytest.mark.parametrize("name", swept(ON_SESSION))
def test_a_study_on_a_device(name, quickly, tmp_path):
    study = STUDIES[name]
    brief = tuple(replace(entry, quick_count=2) for entry in study.entries)
    places = () if name == "cpu-vs-gpu" else tuple(FIRST_PLACES[:1])
    options = Options(quick=True, sizes=(24,), runtimes=places)
    try:
        outcome = studies.run(replace(study, entries=brief), options, tmp_path, nothing)
    except BackendUnavailable as error:
        assert name == "cpu-vs-gpu"  # not every runtime has its vendor's library here
        pytest.skip(str(error))
    assert not outcome.failed
    assert any(path.suffix == ".png" for path in outcome.files)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("name", "place"),
    [*product(["cold-start", "memory-modes"], FIRST_PLACES), *product(["gpp", "postings"], FIRST_PLACES[:1])],
)
def test_processes_of_their_own_on_a_device(name, place, quickly, tmp_path):
    outcome = studies.run(STUDIES[name], Options(quick=True, sizes=(24,), runtimes=(place,)), tmp_path, nothing)
    assert not outcome.failed, outcome.text
    statuses = {record["problem"]["label"]: record["status"] for record in outcome.records}
    if name == "memory-modes":
        assert statuses == dict.fromkeys(memory_modes.MODES[place.partition(":")[0]], "ok")
    elif name == "gpp":
        everywhere = {*gpp.ON_CPU, *gpp.ON_DEVICE, "with copies", "first call, disk"}
        not_everywhere = {"device-tensor", "device-library"}
        assert {label for label, status in statuses.items() if status == "ok"} >= everywhere - not_everywhere
        assert "The index slip" in outcome.text
    elif name == "postings":
        assert {label for label, status in statuses.items() if status == "ok"} >= {*postings.ON_CPU, "coarse"}
    else:
        kept = "ok" if not place.startswith("sycl") else "skipped"  # dpctl gives no binary back
        assert statuses == {"source": "ok", "disk": kept, "loaded": "ok"}


def test_a_child_that_fails_is_a_record(monkeypatch, tmp_path):
    task = engine.Task([engine.sized((8,))[0]], {"opencl-local:nosuch": ({},)}, Options(quick=True), [].append, nothing)
    mode = next(iter(memory_modes.MODES["opencl"]))
    monkeypatch.setitem(memory_modes.MODES, "opencl", {mode: memory_modes.MODES["opencl"][mode]})
    for module in (gpp, postings):  # one of each will do: each step is a process, and all fail alike
        monkeypatch.setattr(module, "ON_DEVICE", module.ON_DEVICE[:1])
    for module in (cold_start, memory_modes, gpp, postings):
        kept = []
        module.measure(replace(task, keep=kept.append))
        assert {record["status"] for record in kept} == {"skipped"}
        assert "nosuch" in kept[0]["reason"] or "not installed" in kept[0]["reason"]


def test_operands_that_are_too_large_for_managed_memory_are_skipped():
    kept = []
    task = engine.Task(engine.sized((8192,)), {"cuda-local": ({},)}, Options(quick=True), kept.append, nothing)
    memory_modes.measure(task)
    assert {record["status"] for record in kept} == {"skipped"}
    assert kept[0]["reason"] == "its operands are over 256 MiB"


# the command line


def run_command(capsys, *arguments):
    try:
        status = main(["study", *map(str, arguments)])
    except SystemExit as end:
        status = end.code
    return status, *capsys.readouterr()


def test_the_command_lists_the_studies(capsys):
    status, out, _ = run_command(capsys)
    assert status == 0
    assert all(name in out for name in NAMES)
    assert max(map(len, out.splitlines())) <= 80
    status, out, _ = run_command(capsys, "--json")
    assert [row["name"] for row in json.loads(out)] == list(STUDIES)


def test_the_command_measures_and_draws_again(capsys, quickly, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    entries = Entry("cpu-ikj"), Entry("cpu-naive")
    monkeypatch.setitem(STUDIES, "cpu-ladder", replace(STUDIES["cpu-ladder"], entries=entries))
    status, out, _ = run_command(capsys, "cpu-ladder", "--quick", "--sizes", "16")
    assert (status, sorted(os.listdir())) == (0, ["study-cpu-ladder"])
    assert "study-cpu-ladder/cpu-ladder.svg" in out
    source = "study-cpu-ladder/records.jsonl"
    status, out, _ = run_command(capsys, "cpu-ladder", "--from", source, "--out", "again", "--json")
    assert (status, json.loads(out)["study"]) == (0, "cpu-ladder")
    assert not (tmp_path / "again" / "records.jsonl").exists()


@pytest.mark.parametrize(
    "arguments",
    [["cpu-lader"], ["tile-size", "--runtime", "vulkan"], ["platforms", "--from", "nosuch.jsonl"],
     ["platforms", "--from", "other.jsonl"], ["tile-size", "--runtime", "opencl:nosuch"]],
    ids=" ".join,
)  # fmt: skip
def test_what_is_wrong_is_one_line(arguments, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("other.jsonl", [made.gemm("cpu-ikj", 64)])
    status, out, err = run_command(capsys, *arguments)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert os.listdir() == ["other.jsonl"]


def test_the_page_names_every_study():
    page = (DOCS / "studies.md").read_text(encoding="utf-8")
    assert all(f"`{name}`" in page for name in STUDIES)
