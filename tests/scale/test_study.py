"""The study of co-execution: judged and drawn from made-up records, and run for real."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec

import made_up_records as made
import pytest
from devices import FIRST_PLACES

from gemmlab import studies
from gemmlab.measure import read
from gemmlab.studies import STUDIES, Options
from gemmlab.studies.curves import scenarios
from gemmlab.studies.judges import judged

STUDY = STUDIES["co-execution"]
pytestmark = [
    pytest.mark.usefixtures("quick_builds"),
    pytest.mark.skipif(not find_spec("matplotlib") or not find_spec("jinja2"), reason="needs the extra report"),
]


def three(n, cpu, gpu, together, gain):
    """Records of the CPU, of the GPU and of both, at these GFLOP/s."""
    params = {"predicted_gain": gain, "share_of_cpu": 0.25}
    return [
        made.gemm("cpu-packed", n, cpu, suite=STUDY.name, label="cpu-packed"),
        made.gpu_product("opencl-local", n, gpu, True, suite=STUDY.name, label="opencl-local"),
        made.gpu_product("opencl-local+cpu-packed", n, together, True, suite=STUDY.name, label="together")
        | {"params": params},
    ]


@pytest.mark.parametrize(
    ("together", "gain", "holds", "band"),
    [(1300, 1.33, True, "1.2 to 1.46 times"), (1000, 1.33, False, "1.2 to 1.46 times"),
     (1700, 1.33, False, "1.2 to 1.46 times"), (1000, 1.0, True, "not slower"), (700, 1.1, False, "not slower")],
)  # fmt: skip
def test_a_gain_is_judged_by_its_prediction(together, gain, holds, band):
    part, = scenarios(STUDY, three(4096, 300, 1000, together, gain))
    finding, = judged(STUDY, part)
    assert (finding.holds, finding.band) == (holds, band)


def test_the_prediction_is_drawn_beside_the_measured_gain(tmp_path):
    records = three(2048, 1000, 300, 1000, 1.0) + three(4096, 300, 1000, 1300, 1.33)
    part, = scenarios(STUDY, records)
    assert set(part.times) == {"cpu-packed", "opencl-local", "together", "fastest alone", "predicted"}
    assert part.times["fastest alone"] == {n: min(r["median_s"] for r in three(n, *rates, 1, 1)[:2])
                                           for n, rates in ((2048, (1000, 300)), (4096, (300, 1000)))}  # fmt: skip
    assert part.times["predicted"][4096] == pytest.approx(part.times["fastest alone"][4096] / 1.33)
    outcome = studies.conclude(STUDY, records, tmp_path)
    assert "Of 2 findings, both held here" in outcome.text or "2 findings" in outcome.text
    assert any(path.suffix == ".png" for path in outcome.files)
    assert max(map(len, outcome.text.splitlines())) <= 80


def test_without_times_alone_nothing_is_judged():
    part, = scenarios(STUDY, three(2048, 1000, 300, 1000, 1.2)[2:])
    finding, = judged(STUDY, part)
    assert finding.holds is None


@pytest.mark.skipif("opencl:0" not in FIRST_PLACES, reason="no OpenCL device here")
def test_the_study_for_real(tmp_path):
    study, options = replace(STUDY, quick_sizes=(64,)), Options(quick=True, runtimes=("opencl",))
    outcome = studies.run(study, options, tmp_path, lambda *step: None)
    assert not outcome.failed
    found = {record["problem"]["label"]: record for record in read(tmp_path / "records.jsonl")}
    assert found.keys() == {"cpu-packed", "opencl-local", "together"}
    assert found["together"]["params"]["predicted_gain"] >= 1
