"""The report in a terminal: its answer, its table, 80 columns."""

from __future__ import annotations

import made_up_records as made
import pytest

from gemmlab.analysis.summary import summary
from gemmlab.measure.measurement import NO_TIME
from gemmlab.measure.table import WIDTH

THROUGH = "These GPU rungs ran on the CPU, through PoCL: they show how rungs differ, not how fast a GPU is."


def on_pocl():
    """Rungs of a GPU as they run on the CPU, without ceilings."""
    rungs = [made.gpu_product(name, 256, rate) for name, rate in (("opencl-naive", 3.0), ("opencl-register", 9.0))]
    return [record | {"device": f"{made.DEVICE} (PoCL)"} for record in rungs]


def test_the_answer_comes_first_and_every_backend_has_a_row():
    text = summary(made.machine())
    assert text.index("Fastest here: cpu-packed") < text.index("Distance to the limit:") < text.index("of peak")
    rows = {line.split()[0]: line for line in text.splitlines() if line.startswith("cpu-")}
    assert set(rows) == {*made.LADDER, "cpu-blis"}
    assert rows["cpu-packed"].endswith("arithmetic")
    assert rows["cpu-naive"].endswith("fewer threads")
    assert "Skipped at N = 2048" in rows["cpu-blis"]


def test_noise_is_marked_and_explained():
    one_of_two = summary([made.gemm("cpu-x", spread=0.5), made.gemm("cpu-y")])
    (row,) = [line for line in one_of_two.splitlines() if line.startswith("cpu-x ")]
    assert "!" in row
    assert "!: noisy" in one_of_two
    assert "!" not in summary([made.gemm("cpu-x")])


def test_most_rows_noisy_are_said_once_and_not_marked():
    text = summary([made.gemm("cpu-x", spread=0.5)])
    assert text.startswith("1 of 1 timings is noisy: do not quote them.")
    assert "!" not in text


def test_a_ladder_that_is_not_complete_names_no_fastest():
    skipped = made.gemm("cpu-z", status="skipped") | {"reason": NO_TIME, "median_s": None, "gflop_per_s": None}
    text = summary([made.gemm("cpu-x"), made.gemm("cpu-y"), skipped])
    assert "Incomplete: The time was over before cpu-z, so nothing is said of the fastest." in text
    assert "Fastest here" not in text


def test_no_verdict_rests_on_a_peak_that_is_exceeded():
    records = [made.gemm("cpu-x", gflop_per_s=450), made.gemm("cpu-y", gflop_per_s=200), *made.ceilings()]
    rows = {line.split()[0]: line for line in summary(records).splitlines() if line.startswith("cpu-")}
    assert rows["cpu-x"].endswith("above its measured limit")
    assert rows["cpu-y"].endswith("-")
    assert "limits the others" not in summary(records)


def test_gpu_rungs_on_the_cpu_come_last_and_say_so():
    text = summary([*on_pocl(), *made.machine()])
    assert text.index("cpu-packed") < text.index("(PoCL)") < text.index("opencl-register")
    assert THROUGH in " ".join(text.split())
    assert THROUGH not in " ".join(summary(made.gpu()).split())


@pytest.mark.parametrize("records", [made.machine(), made.gpu(), made.ceilings(), [*made.machine(), *on_pocl()]])
def test_it_fits_into_80_columns(records):
    assert max(map(len, summary(records).splitlines())) <= WIDTH
