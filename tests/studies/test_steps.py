"""The studies tuned-steps and tensor-steps: which configurations it compares, and what it draws and says of them."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from types import SimpleNamespace

import made_up_records as made
import pytest
from devices import FIRST_PLACES
from unit_products import DEVICE as UNITS

from gemmlab import studies
from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.ladder.rungs import RUNG_NAMES, RUNGS
from gemmlab._gpu.runtime import Device
from gemmlab._gpu.tensor.async_rung import TENSOR_ASYNC
from gemmlab._gpu.tensor.rung import TENSOR
from gemmlab.measure import read
from gemmlab.measure.problems import sized
from gemmlab.studies import STUDIES, Options
from gemmlab.studies.curves import scenarios
from gemmlab.studies.rungs.steps import NOTHING, WITHOUT, configurations, deep

pytestmark = [
    pytest.mark.usefixtures("quick_builds"),
    pytest.mark.skipif(not find_spec("matplotlib") or not find_spec("jinja2"), reason="needs the extra report"),
]
STUDY = STUDIES["tuned-steps"]
TUNED = RUNGS[RUNG_NAMES.index("tuned")]
FASTEST = {"tile_x": 16, "tile_y": 8, "warp_y": 4, "warps_x": 2, "warps_y": 4, "step_k": 16, "buffers": 2, "pad": 4,
           "group_m": 8}  # fmt: skip
BEST_OF = {"gpu": FASTEST, "cpu": {}}
SQUARE, = sized((4096,), suite=STUDY.name)


def backend_on(kind, **given):
    """The rung on a made-up device with 132 compute units, tuned there."""
    device = Device("opencl", 0, made.GPU, kind, "p", "d", 132, 1024, 226 << 10, 8 << 30, 2 << 30, True)

    def resolve(problem, params):
        size = GemmSize(problem.m, problem.n, problem.k, 1)
        return TUNED.resolve({**BEST_OF[kind], **given, **params}, kind, size, device.compute_units)

    return SimpleNamespace(rung=TUNED, queue=SimpleNamespace(device=device), resolve=resolve)


def changed(found):
    """What each configuration has that the first has not."""
    best = found[NOTHING]
    return {idea: {name: x for name, x in own.items() if x != best[name]} for idea, own in found.items()}


def test_each_row_lacks_one_idea():
    assert changed(configurations(backend_on("gpu"), SQUARE)) == {
        NOTHING: {}, "wide accesses": {"vector_bytes": 8}, "double buffers": {"buffers": 1},
        "warp tiles": {"warp_y": 1, "warps_x": 1, "warps_y": 8}, "large tiles": {"tile_x": 4, "tile_y": 4},
        "padding": {"pad": 0}, "tile order": {"group_m": 1}, "even waves": {"shares": 1},
    }  # fmt: skip
    assert changed(configurations(backend_on("cpu"), SQUARE)) == {
        NOTHING: {}, "wide vectors": {"vector_bytes": 32}, "rows of a tile": {"tile_y": 1},
        "tile order": {"group_m": 1},
    }  # fmt: skip


def test_a_small_result_with_a_long_k_is_shared_out():
    found = changed(configurations(backend_on("gpu"), deep(SQUARE)))
    assert found["even waves"] == {"shares": 1}
    assert (deep(SQUARE).m, deep(SQUARE).n, deep(SQUARE).k) == (256, 256, 65536)


@pytest.mark.parametrize("rung", [TENSOR, TENSOR_ASYNC], ids=lambda rung: rung.name)
def test_each_row_of_matrix_units_lacks_one_idea_and_can_run(rung):
    def resolve(problem, params):
        size = GemmSize(problem.m, problem.n, problem.k, 1)
        found = rung.resolve(params, "gpu")
        return {**found, "shares": rung.shares_for(found, "float16", size, 132)}

    backend = SimpleNamespace(rung=rung, queue=SimpleNamespace(device=UNITS), resolve=resolve)
    square = replace(SQUARE, m=3072, n=3072, k=3072, dtype="float16")
    rows = configurations(backend, square)
    assert list(rows) == [NOTHING, *WITHOUT[rung.name]["gpu"]]
    for params in rows.values():
        assert all(param.constraint(params[param.name]) for param in rung.params)
        assert rung.refusal(params, "float16", UNITS) is None


def test_an_idea_that_is_not_used_has_no_row():
    assert "padding" not in configurations(backend_on("gpu", pad=0), SQUARE)


@pytest.mark.parametrize("given", [{}, {"tile_x": 8, "step_k": 8}], ids=["tuned", "defaults"])
def test_every_row_can_run_on_a_gpu(given):
    backend = backend_on("gpu", **given)
    for case in (SQUARE, deep(SQUARE)):
        for params in configurations(backend, case).values():
            assert all(TUNED.params[i].constraint(params[TUNED.params[i].name]) for i in range(len(TUNED.params)))
            assert TUNED.refusal(params, "float32", backend.queue.device) is None


def records_of(idea, square_rate, deep_rate):
    rows = (SQUARE, square_rate), (deep(SQUARE), deep_rate)
    return [made.gpu_product("opencl-tuned", 512, rate, False) | {"problem": replace(case, label=idea).problem()}
            for case, rate in rows]  # fmt: skip


def test_both_products_are_lines_of_one_figure(tmp_path):
    rates = {NOTHING: (49600, 38700), "double buffers": (48600, 38000), "even waves": (49600, 1200)}
    records = [record for idea, own in rates.items() for record in records_of(idea, *own)]
    part, = scenarios(STUDY, records)
    assert list(part.curves) == ["4096 x 4096 x 4096", "256 x 256 x 65536"]
    assert all(list(own) == list(rates) for own in part.curves.values())
    outcome = studies.conclude(STUDY, records, tmp_path)
    assert {path.name for path in outcome.files} == {
        f"tuned-steps{end}" for end in (".txt", "-opencl.svg", "-opencl.png")
    }
    assert max(map(len, outcome.text.splitlines())) <= 80
    assert "Speed-up over without = nothing" in outcome.text


@pytest.mark.skipif(not FIRST_PLACES, reason="no device here")
def test_the_study_on_a_device(tmp_path):
    options = Options(quick=True, sizes=(96,), runtimes=(FIRST_PLACES[0],))
    outcome = studies.run(STUDY, options, tmp_path, lambda *step: None)
    assert not outcome.failed, outcome.text
    records = [record for record in read(tmp_path / "records.jsonl") if record["kind"] == "gemm"]
    done = {(record["problem"]["label"], record["problem"]["m"]) for record in records if record["status"] == "ok"}
    assert {(NOTHING, 96), (NOTHING, 6)} <= done
    assert {label for label, _ in done} - {NOTHING} <= {idea for ideas in WITHOUT["tuned"].values() for idea in ideas}
