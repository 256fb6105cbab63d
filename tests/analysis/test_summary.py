"""The report in a terminal: its answer, its table, 80 columns."""

from __future__ import annotations

import made_up_records as made
import pytest

from gemmlab.analysis.summary import summary
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
    (row,) = [line for line in summary([made.gemm("cpu-x", spread=0.5)]).splitlines() if line.startswith("cpu-x ")]
    assert "!" in row
    assert "!: noisy" in summary([made.gemm("cpu-x", spread=0.5)])
    assert "!" not in summary([made.gemm("cpu-x")])


def test_gpu_rungs_on_the_cpu_come_last_and_say_so():
    text = summary([*on_pocl(), *made.machine()])
    assert text.index("cpu-packed") < text.index("(PoCL)") < text.index("opencl-register")
    assert THROUGH in " ".join(text.split())
    assert THROUGH not in " ".join(summary(made.gpu()).split())


@pytest.mark.parametrize("records", [made.machine(), made.gpu(), made.ceilings(), [*made.machine(), *on_pocl()]])
def test_it_fits_into_80_columns(records):
    assert max(map(len, summary(records).splitlines())) <= WIDTH
