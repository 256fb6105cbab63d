"""A rung follows the configurations of a profile: this machine's own, then those that ship; never a wrong one."""

from __future__ import annotations

import json
import warnings
from dataclasses import astuple, replace
from pathlib import Path
from statistics import geometric_mean
from types import SimpleNamespace

import fitted_costs
import numpy as np
import pytest
from devices import FIRST_PLACES, backend_at
from fresh_profile import forget, profile_in
from randomness import RNG
from sweeps import swept

import gemmlab
from gemmlab import _profile, _registry
from gemmlab._gpu import cache, configurations
from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.configurations import local_memory, model, rates
from gemmlab._gpu.configurations.check import odd_size
from gemmlab._gpu.configurations.rates import Rates
from gemmlab._gpu.ladder.rungs import RUNG_NAMES, RUNGS
from gemmlab._gpu.runtime import Device
from gemmlab._profile import Configuration, Cost
from gemmlab.tune.search import log

LOGS = Path(__file__).parents[1] / "tune" / "logs"
NAME = "opencl-register"
SMALL = {"tile_x": 2, "tile_y": 2, "length": 4, "group_x": 4, "group_y": 4}
LARGE = {"tile_x": 4, "tile_y": 8, "length": 2, "group_x": 32, "group_y": 8}
pytestmark = pytest.mark.skipif("opencl:0" not in FIRST_PLACES, reason="no OpenCL device")


@pytest.fixture(autouse=True)
def own_profile(monkeypatch, tmp_path):
    with profile_in(tmp_path, monkeypatch):
        yield


@pytest.fixture
def backend():
    return gemmlab.get_backend(NAME)


def keep(backend, *found, key=None, dtype="float32", driver=None):
    """Put configurations, of (parameters, edge, rate), into the profile."""
    driver = backend.device.driver if driver is None else driver
    kept = [Configuration(parameters, (edge,) * 3, rate, driver) for parameters, edge, rate in found]
    _profile.store_configurations(key or configurations.device_key(backend.queue.device), NAME, {dtype: kept})
    configurations.forget()


def params_of(m, n, k, dtype="float32", **given):
    a, b = RNG.integers(-8, 9, (m, k)).astype(dtype), RNG.integers(-8, 9, (k, n)).astype(dtype)
    with gemmlab.trace() as calls:
        c = gemmlab.matmul(a, b, backend=NAME, **given)
    assert np.array_equal(c, a @ b)
    return calls[0].params


def test_products_follow_the_configuration_that_is_predicted_to_be_fastest(backend):
    usual = params_of(70, 50, 30)
    keep(backend, (LARGE, 1024, 1000.0), (SMALL, 64, 100.0))
    assert params_of(1000, 1100, 40) == LARGE
    assert params_of(8, 8, 40) == SMALL
    assert params_of(70, 50, 30, "float64") == usual
    assert params_of(8, 8, 40, tile_x=1) == SMALL | {"tile_x": 1}
    assert params_of(8, 8, 40, **usual) == usual
    assert "fastest at 64 x 64 x 64" in explanation()


def explanation():
    return str(gemmlab.explain(np.ones((8, 40), np.float32), np.ones((40, 8), np.float32), backend=NAME).rows[0][2])


def test_what_does_not_go_with_the_callers_value_gives_way_to_the_defaults(backend):
    usual = params_of(70, 50, 30)
    keep(backend, ({**LARGE, "group_y": 16}, 64, 100.0))
    limit = backend.device.group_limit
    wide = min(1024, 2 * limit // 16)
    assert params_of(70, 50, 30, group_x=wide) == usual | {"group_x": wide}


@pytest.mark.parametrize("key", ["another GPU, 9.0", "PoCL, 128 bits"])
def test_those_of_another_device_are_not_used(key, backend):
    usual = params_of(70, 50, 30)
    keep(backend, (SMALL, 64, 100.0), key=key)
    assert params_of(70, 50, 30) == usual
    assert "profile" not in explanation()


def test_another_driver_is_said(backend):
    keep(backend, (SMALL, 64, 100.0), driver="driver 1.0")
    assert params_of(8, 8, 8) == SMALL
    assert "with another driver (driver 1.0; this is" in explanation()


def test_a_wrong_one_is_named_and_not_used(backend, monkeypatch):
    usual = params_of(70, 50, 30)
    keep(backend, (LARGE, 1024, 1000.0), (SMALL, 64, 100.0))
    right = type(backend).prepared

    def prepared(self, queue, params, *others):
        if params == SMALL:
            raise gemmlab.DeviceError("its kernel is broken")
        return right(self, queue, params, *others)

    monkeypatch.setattr(type(backend), "prepared", prepared)
    with pytest.warns(UserWarning, match=r"the profile's .*tile_x 2, .* is not used, its kernel is broken"):
        assert params_of(8, 8, 8) == LARGE
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once in a process
        assert params_of(8, 8, 9) == LARGE
    assert "is not used" in explanation()
    assert usual != LARGE


def test_one_that_has_passed_is_not_checked_in_later_processes(backend, monkeypatch):
    checked = []

    def right(backend, queue, dtype, parameters):
        checked.append(parameters)
        return ""

    monkeypatch.setattr(configurations.check, "_why_wrong", right)
    keep(backend, (SMALL, 64, 100.0))
    for _ in range(2):
        assert params_of(8, 8, 8) == SMALL
        configurations.forget()  # as a new process has
    assert len(checked) == 1
    programs = gemmlab.config.cache_dir / "programs"
    assert len(list(programs.glob("*.passed"))) == 1
    assert cache.summary().programs == len(list(programs.glob("*.program")))
    monkeypatch.setattr(cache, "__version__", "another")
    assert params_of(8, 8, 8) == SMALL
    assert len(checked) == 2


def test_the_machines_own_go_before_those_that_ship(backend, monkeypatch):
    shipped = {"parameters": LARGE, "shape": [64, 64, 64], "gflop_per_s": 10.0, "driver": "elsewhere"}
    table = {configurations.device_key(backend.queue.device): {NAME: {"float32": [shipped]}}}
    monkeypatch.setattr(_profile, "_shipped", lambda: _profile.Content({}, table))
    configurations.forget()
    assert params_of(8, 8, 8) == LARGE
    keep(backend, (SMALL, 64, 100.0))
    assert params_of(8, 8, 8) == SMALL


def test_an_absent_parameter_takes_its_default_and_an_unknown_one_is_dropped(backend):
    defaults = backend.rung.resolve({}, backend.device.kind)
    keep(backend, ({name: value for name, value in SMALL.items() if name != "group_y"} | {"more": 1}, 64, 100.0))
    assert params_of(8, 8, 8) == SMALL | {"group_y": defaults["group_y"]} != defaults


def test_an_old_name_is_read():
    tuned = gemmlab.get_backend("opencl-tuned")
    old = tuned.rung.resolve({}, tuned.device.kind) | {"panel": 4}
    del old["group_m"]
    one = Configuration(old, (64, 64, 64), 100.0, "")
    _profile.store_configurations(configurations.device_key(tuned.queue.device), "opencl-tuned", {"float32": [one]})
    configurations.forget()
    (found,) = configurations.known(tuned, tuned.queue, "float32")
    assert found.parameters == tuned.rung.resolve({"group_m": 4}, tuned.device.kind)


def test_float16_has_the_configurations_of_float32():
    tuned = gemmlab.get_backend("opencl-tuned")
    of_float32 = configurations.known(tuned, tuned.queue, "float32")
    one = Configuration(tuned.rung.resolve({}, tuned.device.kind), (64, 64, 64), 100.0, "")
    _profile.store_configurations(configurations.device_key(tuned.queue.device), "opencl-tuned", {"float32": [one]})
    configurations.forget()
    assert configurations.known(tuned, tuned.queue, "float16") == (one,) != of_float32


@pytest.mark.parametrize("damage", [
    {"parameters": {"tile_x": 0}}, {"parameters": {"surprise": 3}}, {"parameters": {"tile_x": 5000}},
    {"parameters": SMALL | {"tile_x": 2.0}}, {"parameters": {}},
    {"parameters": SMALL | {"tile_x": 0}},
    {"parameters": []}, {"shape": [64, 64]}, {"shape": "64"}, {"gflop_per_s": 0}, {"gflop_per_s": "fast"},
    {"gflop_per_s": 1e999}, {"shape": [64, 64, True]},
])  # fmt: skip
def test_what_is_no_configuration_is_ignored(damage, backend):
    usual = params_of(70, 50, 30)
    one = {"parameters": SMALL, "shape": [64, 64, 64], "gflop_per_s": 10.0, "driver": ""} | damage
    devices = {configurations.device_key(backend.queue.device): {NAME: {"float32": [one, 3]}}}
    _profile.path().write_text(json.dumps({"version": 2, "machines": {}, "devices": devices}))
    forget()
    assert params_of(70, 50, 30) == usual


def test_shapes_are_replaced_one_by_one(backend):
    keep(backend, (SMALL, 64, 100.0), (LARGE, 1024, 100.0))
    keep(backend, (SMALL, 1024, 200.0))
    kept = _profile.configurations(configurations.device_key(backend.queue.device), NAME, "float32")
    assert [(one.shape[0], one.parameters, one.gflop_per_s) for one in kept] == [
        (64, SMALL, 100.0), (1024, SMALL, 200.0),
    ]  # fmt: skip


def rung_of(name):
    return RUNGS[RUNG_NAMES.index(name.partition("-")[2])]


def test_the_files_that_ship_are_profiles_of_rungs():
    for key, backends in _profile._shipped().devices.items():
        for name, dtypes in backends.items():
            names = {param.name for param in rung_of(name).on("gpu" if key.startswith("compute") else "cpu").params}
            rung = gemmlab.backends()[name]
            for listed in dtypes.values():
                for one in map(_profile._configuration, listed):
                    assert one is not None
                    assert one.parameters.keys() == names
                    assert all(rung.params[key].constraint(value) for key, value in one.parameters.items())


@pytest.mark.parametrize("place", FIRST_PLACES)
def test_every_runtime_names_its_device_and_its_local_memory(place):
    queue = gemmlab.get_backend(backend_at(place, "naive")).queue
    assert configurations.device_key(queue.device).split(", ")[1].split()[0].replace(".", "").isdigit()
    assert queue.static_local_bytes >= queue.device.local_bytes
    assert local_memory._runs(queue, 16 << 10)


def test_a_gpu_is_asked_for_more_local_memory_than_it_reports(backend, monkeypatch):
    asked = []
    queue = SimpleNamespace(device=replace(backend.device, kind="gpu", local_bytes=48 << 10))
    monkeypatch.setattr(local_memory, "_runs", lambda queue, nbytes: asked.append(nbytes) or nbytes < 100 << 10)
    assert local_memory.probed(queue) == 98 << 10
    assert asked == [226 << 10, 162 << 10, 98 << 10]
    monkeypatch.setattr(local_memory, "_runs", lambda queue, nbytes: False)
    assert local_memory.probed(queue) == 48 << 10


def test_a_rung_may_have_the_local_memory_that_was_probed(backend, monkeypatch):
    rung, params = gemmlab.get_backend("opencl-local4").rung, {"tile": 64, "per_item": 4, "unroll": 1}
    reports_little = replace(backend.device, local_bytes=4000)
    assert "of local memory" in rung.refusal(params, "float32", reports_little)
    monkeypatch.setattr(backend.runtime, "devices", (reports_little,))
    monkeypatch.setattr(backend.runtime, "queue", lambda device: SimpleNamespace(static_local_bytes=40_000))
    assert rung.refusal(params, "float32", reports_little) is None
    assert "40000 a group" in rung.refusal(params, "float64", reports_little)


def test_a_cpu_follows_the_product_that_is_nearest_in_size(backend):
    keep(backend, (SMALL, 256, 1000.0), (LARGE, 1024, 100.0))  # the rate of what fits the caches
    assert params_of(1000, 900, 1100) == LARGE
    assert params_of(300, 200, 300) == SMALL


def gpu(compute_units):
    return Device("opencl", 0, "a GPU", "gpu", "p", "d", compute_units, 1024, 48 << 10, 8 << 30, 2 << 30, True)


def test_the_key_is_the_architecture_and_not_the_name():
    known = [replace(gpu(units), name=name, compute_capability=90) for units, name in ((114, "H100"), (132, "H200"))]
    assert {configurations.device_key(one) for one in known} == {"compute capability 9.0"}
    others = [replace(gpu(40), platform="AMD", name=name, sub_group=64) for name in ("one", "two")]
    assert {configurations.device_key(one) for one in others} == {"AMD, sub-groups of 64, 48 KiB of local memory"}


def test_a_profile_that_names_the_gpu_is_read(backend):
    one = {"parameters": SMALL, "shape": [64, 64, 64], "gflop_per_s": 10.0, "driver": ""}
    devices = {"NVIDIA H100 80GB HBM3, 9.0": {NAME: {"float32": [one]}}, "PoCL, 256 bits": {NAME: {"float64": [one]}}}
    _profile.path().write_text(json.dumps({"version": 2, "machines": {}, "devices": devices}))
    forget()
    assert [len(_profile.configurations("compute capability 9.0", NAME, "float32")),
            len(_profile.configurations("PoCL, 256 bits", NAME, "float64"))] == [1, 1]  # fmt: skip


TUNED = RUNGS[RUNG_NAMES.index("tuned")]
BLOCK_128 = TUNED.resolve({}, "gpu")  # 128 x 128, 8 of k at a time
COST = Cost(start_s=10e-6, alone_s=80e-9, busy_s=50e-9)
PROBED = Rates(memory=2.9e12, launch_s=3e-6)


def seconds(one, device, *size, rates=PROBED):
    return model.fastest(one, TUNED, device, GemmSize(*size), 4, rates)[1].seconds


@pytest.mark.parametrize(("size", "groups"), [
    ((128, 128, 800, 1), 1), ((1280, 128, 800, 1), 1), ((1281, 128, 800, 1), 2), ((128, 1300, 800, 2), 3),
])  # fmt: skip
def test_a_unit_takes_its_share_of_the_work_groups(size, groups):
    one = Configuration({**BLOCK_128, "shares": 1}, (9, 9, 9), 1.0, "", 132, COST)
    assert seconds(one, gpu(10), *size) == pytest.approx(10e-6 + 800 * max(80e-9, groups * 50e-9))


def test_a_slower_clock_takes_longer_and_an_unknown_one_changes_nothing():
    one = Configuration({**BLOCK_128, "shares": 1}, (9, 9, 9), 1.0, "", 132, COST, clock_mhz=1980)
    measured = seconds(one, gpu(132), 1280, 1280, 800, 1)
    for clock_mhz, factor in ((0, 1.0), (1980, 1.0), (1755, 1980 / 1755)):
        here = replace(gpu(132), clock_mhz=clock_mhz)
        assert seconds(one, here, 1280, 1280, 800, 1) == pytest.approx(factor * measured)


def test_groups_share_k_where_that_is_predicted_to_be_faster():
    one = Configuration(BLOCK_128, (9, 9, 9), 1.0, "", 132, COST)
    params, found = model.fastest(one, TUNED, gpu(10), GemmSize(128, 128, 8000, 1), 4, PROBED)
    shares, sums = params["shares"], params["shares"] * 128 * 128
    assert shares > 1
    assert found.multiply_s == pytest.approx(8000 / shares * max(80e-9, -(-shares // 10) * 50e-9))
    assert found.add_s == pytest.approx(3e-6 + 2 * 4 * sums / 2.9e12)
    for other in (1, shares + 10, max(2, shares - 10)):
        assert seconds(replace(one, parameters={**BLOCK_128, "shares": other}), gpu(10), 128, 128, 8000, 1) >= (
            found.seconds
        )
    no_gain = model.fastest(one, TUNED, gpu(10), GemmSize(1280, 128, 64, 1), 4, PROBED)
    assert no_gain[0]["shares"] == 1


def test_no_product_is_faster_than_memory():
    one = Configuration(BLOCK_128, (9, 9, 9), 1.0, "", 132, COST)
    for m, n, k in ((20_000, 20_000, 8), (30_000, 1, 30_000)):  # the second is thin, and has no tiles
        assert seconds(one, gpu(132), m, n, k, 1) == pytest.approx(4 * (m * k + k * n + m * n) / 2.9e12)
    found = model.fastest(one, TUNED, gpu(132), GemmSize(20_000, 20_000, 8, 1), 4, PROBED)[1]
    assert str(found) == "552 us are predicted: as memory takes"


def test_what_is_predicted_is_said():
    assert str(model.Prediction(1e-5, 2.5e-3, 0.0, 1e-6)) == "2.51 ms are predicted: multiplying 2.5 ms, starting 10 us"
    assert str(model.Prediction(1e-5, 1e-5, 4e-6, 1e-6)).endswith("starting 10 us, adding shares 4 us")


def test_of_an_older_profile_the_rate_is_taken():
    one = Configuration({**BLOCK_128, "shares": 1}, (4096, 4096, 4096), 40000.0, "", 132)
    there, here = (seconds(one, gpu(units), 4096, 4096, 4096, 1) for units in (132, 66))
    assert there == pytest.approx(2e-9 * 4096**3 / 40000)
    assert here == pytest.approx(2 * there, rel=0.05)
    short = Configuration(BLOCK_128, (64, 64, 64), 1000.0, "")  # half a microsecond, which is not all start
    own_s = 2e-9 * 64**3 / 1000
    assert seconds(short, gpu(8), 64, 64, 128, 1) == pytest.approx(1.5 * own_s)
    small = {**BLOCK_128, "warps_y": 1, "shares": 1}  # groups of 64 work-items, four at a time
    four = Configuration(small, (128, 128, 64), 0.1, "", 1)
    assert seconds(four, gpu(1), 32, 128, 64, 1) == pytest.approx(seconds(four, gpu(1), 128, 128, 64, 1))


def test_explain_says_that_nothing_was_measured_on_an_architecture(backend, monkeypatch):
    monkeypatch.setattr(configurations, "device_key", lambda device: "compute capability 99.0")
    unknown = replace(backend.queue.device, kind="gpu")
    queue = SimpleNamespace(device=unknown)
    problem = gemmlab.Problem.from_call(np.ones((9, 9), "f4"), np.ones((9, 9), "f4"))
    said = configurations.note(backend, queue, problem)
    assert f"nothing was measured on compute capability 99.0: `gemmlab tune {backend.name} --minutes 2` does it" in said


def as_in_the_log(one, shape):
    """With as many shares as there were parts of k when the logs were measured."""
    parts, tiles = fitted_costs.parts_of(one.parameters, shape), TUNED._tiles(one.parameters, GemmSize(*shape, 1))
    return replace(one, parameters={**one.parameters, "shares": parts * tiles if parts > 1 else 1})


@pytest.mark.parametrize("name", ["opencl-tuned", "opencl-tuned-float64", "cuda-tuned"])
def test_what_is_chosen_on_an_h100_was_fast_there(name):
    header, entries = log.read(LOGS / f"{name}-h100.jsonl")
    shares = []
    for (dtype, shape), ranking in log.rankings_of(header, entries).items():
        shipped = _profile.configurations(header["device"], header["backend"], dtype)
        chosen = min(shipped, key=lambda one: seconds(as_in_the_log(one, shape), gpu(132), *shape, 1))
        values = (chosen.parameters.get(name, 1) for name in header["names"])  # `local_copy` of the log has gone
        rate = ranking.rates.get(tuple(values))
        if rate is not None:
            shares.append(rate / max(ranking.rates.values()))
    assert len(shares) > 2
    assert geometric_mean(shares) > 0.95
    assert min(shares) > 0.8


@pytest.mark.parametrize("name", swept(["opencl-tuned-float64", "opencl-tuned", "cuda-tuned"]))
def test_times_of_an_h100_are_predicted_by_costs_and_such_costs_ship(name):
    path = LOGS / f"{name}-h100.jsonl"
    header, _ = log.read(path)
    costs, times, errors, shipped = fitted_costs.all_fitted(path), fitted_costs.times(path), [], 0
    assert len(costs) >= 20
    for (dtype, values), cost in costs.items():
        parameters = dict(zip(header["names"], values, strict=True))
        one = Configuration(TUNED.resolve({**parameters, "shares": 1}, "gpu"), (9, 9, 9), 1.0, "", 132, cost)
        for shape, own_s in times[dtype, values].items():
            if fitted_costs.parts_of(parameters, shape) == 1:
                predicted_s = seconds(one, gpu(132), *shape, 1)
                errors.append(abs(predicted_s / own_s - 1))
        for kept in _profile.configurations(header["device"], header["backend"], dtype):
            if all(parameters[name] == x for name, x in kept.parameters.items() if name != "shares"):
                assert astuple(kept.cost) == pytest.approx(astuple(cost), rel=0.02)
                shipped += 1
    assert shipped >= 2
    assert np.mean(errors) < 0.04
    assert np.quantile(errors, 0.99) < 0.2


@pytest.mark.parametrize(("m", "n", "k", "tflops"), [
    (1536, 1536, 1536, 26.6), (3072, 3072, 3072, 37.4), (5000, 5000, 5000, 42.4), (12000, 300, 3000, 21.1),
    (300, 12000, 3000, 21.3),
])  # fmt: skip
def test_an_h200_is_predicted_by_what_an_h100_measured(m, n, k, tflops):
    (fast,) = (
        one for one in _profile.configurations("compute capability 9.0", "opencl-tuned", "float32")
        if one.shape == (4096, 4096, 4096) and one.parameters["group_m"] == 8 and TUNED.block(one.parameters)[0] == 256
    )  # fmt: skip
    whole = replace(fast, parameters={**fast.parameters, "shares": 1})
    assert 2e-12 * m * n * k / seconds(whole, gpu(132), m, n, k, 1) == pytest.approx(tflops, rel=0.03)


@pytest.mark.parametrize("place", FIRST_PLACES)
def test_memory_and_launches_are_probed(place):
    found = rates.rates_of(gemmlab.get_backend(backend_at(place, "naive")).queue)
    assert 1e6 < found.memory < 1e14
    assert 0 <= found.launch_s < 0.1


def test_what_was_probed_is_kept(backend, monkeypatch):
    first = rates.probed(backend.queue)
    monkeypatch.setattr(rates, "_copy_s", lambda queue, nbytes: 1.0)
    assert rates.probed(backend.queue) == first
    (kept,) = (gemmlab.config.cache_dir / "programs").glob("*.rates")
    kept.unlink()
    assert rates.probed(backend.queue).launch_s == 1.0


def test_without_memory_to_probe_nothing_is_known(backend, monkeypatch):
    def full(nbytes):
        raise gemmlab.DeviceError("no memory")

    queue = backend.queue.sibling()
    monkeypatch.setattr(type(queue), "sibling", lambda self: self)
    monkeypatch.setattr(type(queue), "allocate", lambda self, nbytes: full(nbytes))
    assert rates.probed(queue) == Rates()


def test_costs_are_kept_and_what_is_none_is_ignored():
    key = configurations.device_key(gemmlab.get_backend(NAME).queue.device)
    kept = Configuration(SMALL, (64, 64, 64), 100.0, "", 2, COST)
    _profile.store_configurations(key, NAME, {"float32": [kept]})
    assert _profile.configurations(key, NAME, "float32") == (kept,)
    for wrong in ({"start_s": 1.0}, {"start_s": 0, "alone_s": 1, "busy_s": 1}, "cheap", {"a": 1}, [1, 2, 3]):
        assert _profile.cost_of(wrong) is None


def test_the_small_product_has_edges():
    assert odd_size(16, 8) == (13, 25, 131)
    assert odd_size(1, 1) == (3, 3, 131)
    assert _registry.get(NAME).params.keys() == SMALL.keys()
