"""The self-energy: every form against sums in extended precision, the closed form, and the guards."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest
from devices import FIRST_PLACES, PLACES, nvrtc_here
from on_host import aligned, run
from randomness import RNG, fresh_seed
from recorded_kernel import needs_compiler

from gemmlab import BackendUnavailable, UnsupportedProblem
from gemmlab._gpu.cuda import compile_source
from gemmlab._gpu.kernels import kernel_text
from gemmlab._gpu.plans.launches import Launch, Place
from gemmlab._gpu.transfers.memory_modes import MODES
from gemmlab.workloads import gpp, gpp_problem
from gemmlab.workloads.gpp import DeviceProblem, Problem, frequencies, self_energy
from gemmlab.workloads.gpp_check import bound, largest_error
from gemmlab.workloads.gpp_device import VARIANTS, source_of

pytestmark = pytest.mark.usefixtures("quick_kernels")

FORMS = {name: form for name, form in gpp.FORMS.items() if not form.on_device}
LOOPS = [form.name for form in FORMS.values() if form.loop is not None]
PRODUCTS = ["factored", "fused"]
ON_DEVICE = ["device-loops", "device-fused", "split"]
SHAPES = [(1, 0, 1, 1), (1, 1, 2, 2), (7, 3, 33, 5), (16, 16, 100, 1), (5, 0, 300, 7), (3, 2, 257, 20)]


@pytest.mark.parametrize("poles", ["away", "near"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_form_against_extended_precision(shape, poles):
    problem = Problem.random(*shape, nend=int(RNG.integers(1, 5)), seed=fresh_seed(), poles=poles)
    for form in FORMS:
        error = largest_error(self_energy(problem, form, threads=int(RNG.integers(1, 4))), problem)
        assert error <= bound(problem, form), form


@pytest.mark.parametrize("poles", ["away", "near"])
def test_products_to_the_mini_apps_test_size(poles):
    problem = Problem.random(512, 2, 512, 20, seed=fresh_seed(), poles=poles)
    for form in PRODUCTS:
        assert largest_error(self_energy(problem, form), problem) <= 1e-13


@pytest.mark.parametrize("form", FORMS)
def test_bands_with_their_own_energies(form):
    problem = Problem.random(12, 5, 60, 4, seed=fresh_seed())
    energies = RNG.choice([5.0, 6.0, 5.5], 12)
    problem = Problem(problem.aqsm, problem.aqsn, problem.eps, problem.wt, problem.vcoul,
                      frequencies(3, e_n1kq=energies), 5)  # fmt: skip
    assert largest_error(self_energy(problem, form), problem) <= bound(problem, form)


@pytest.mark.parametrize("form", FORMS)
def test_constant_inputs_give_the_closed_form(form):
    problem = Problem.constant(16, 2, 256, 5, value=complex(*RNG.uniform(0.1, 1.0, 2)), vcoul=RNG.random())
    error = abs(self_energy(problem, form).ach / problem.closed_form() - 1).max()
    assert error <= bound(problem, form)


def test_the_closed_form_is_the_published_value():
    """-264241152 + 1321205760i at 512 2 32768 20: each of its terms is that of a smaller problem."""
    small = Problem.constant(2, 2, 64, 4)
    times = 512 * 32768 * 1638 / (2 * 64 * 16)
    assert small.closed_form()[0] * times == pytest.approx(-264241152 + 1321205760j, rel=1e-14)
    with pytest.raises(ValueError, match="needs constant inputs, and aqsm is not"):
        Problem.random(2, 1, 8, 2).closed_form()


@pytest.mark.parametrize("nend", [1, 2, 3, 5])
def test_near_poles_take_every_branch_of_both_guards(nend):
    problem = Problem.random(1, 1, 512, 8, nend=nend, seed=fresh_seed(), poles="near")
    wt, wx = problem.wt[..., None], problem.wx
    far, ratio = abs(wx - wt) ** 2, abs(wt / (wx - wt)) ** 2
    away = (far > 0.25) & (ratio < 250000)
    near = ~away & (ratio > 1e-6)
    uncut = np.where(away, wt**2 / (wx**2 - wt**2), np.where(near, -wt / (wx - wt) / (4 * wt / (wx - wt) + 2), 0))
    cut = (wx < 0) & (abs(uncut) > 4)
    for branch in (away, near, ~away & ~near, cut, (wx < 0) & ~cut):
        assert branch.mean() >= 0.05


def test_an_index_slip_shows_in_random_inputs_alone():
    """Public versions take aqsn's column P(p) for g: constant inputs cannot tell."""

    def slipped(problem):
        column = problem.columns
        dot = (problem.aqsm[:, column].conj() * problem.aqsn[:, column]).sum(axis=0)
        hole, _ = gpp_problem.weights(problem.wt[..., None], problem.wx)
        return 0.5 * np.einsum("p,p,pg,pgw->w", problem.vcoul[column], dot, problem.eps, hole)

    for problem, slips in ((Problem.constant(8, 2, 128, 4), False),
                           (Problem.random(8, 2, 128, 4, seed=fresh_seed()), True)):  # fmt: skip
        true = self_energy(problem).ach
        assert (abs(slipped(problem) - true).max() > 0.05 * abs(true).max()) == slips


@pytest.mark.parametrize("form", FORMS)
def test_results_do_not_depend_on_threads(form):
    problem = Problem.random(9, 4, 700, 11, seed=fresh_seed(), poles="near")
    one, three = (self_energy(problem, form, threads=threads) for threads in (1, 3))
    assert (one.ach == three.ach).all()
    assert (one.asx == three.asx).all()
    assert one.achs == three.achs


def test_a_pole_at_a_frequency_or_at_zero_counts_nothing():
    problem = Problem.random(4, 4, 20, 2, seed=fresh_seed())
    wt = problem.wt.copy()
    wt[0, 0], wt[1, 1] = problem.wx[0], 0
    problem = Problem(problem.aqsm, problem.aqsn, problem.eps, wt, problem.vcoul, problem.wx, 4)
    for form in FORMS:
        assert largest_error(self_energy(problem, form), problem) <= bound(problem, form)


@pytest.mark.parametrize("shape", [(600, 2, 3000, 4), (40, 3, 2500, 1)], ids=str)
def test_fused_needs_little_memory(shape):
    problem = Problem.random(*shape, seed=fresh_seed())
    self_energy(problem, "fused")
    tracemalloc.start()
    try:
        self_energy(problem, "fused")
        assert tracemalloc.get_traced_memory()[1] <= 64 << 20
    finally:
        tracemalloc.stop()
    rows, columns = gpp.fused_tile(problem)
    assert 2 * 16 * rows * columns + 16 * rows * problem.nb <= 40 << 20


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nb": 0}, "nb is at least 1, not 0"),
        ({"nvband": 9}, "nvband is from 0 to nb, which is 8, not 9"),
        ({"nodes_per_group": 65}, "nodes_per_group is at most ncouls, which is 64, not 65"),
        ({"nend": 0}, "nend is at least 1, not 0"),
    ],
)
@pytest.mark.parametrize("make", [Problem.constant, Problem.random])
def test_sizes_that_make_no_sense(make, arguments, message):
    with pytest.raises(ValueError, match=message):
        make(**{"nb": 8, "nvband": 2, "ncouls": 64, "nodes_per_group": 4, **arguments})


def test_arrays_that_do_not_fit():
    x = Problem.random(4, 2, 20, 2, seed=fresh_seed())
    good = {"aqsm": x.aqsm, "aqsn": x.aqsn, "eps": x.eps, "wt": x.wt, "vcoul": x.vcoul, "wx": x.wx, "nvband": 2}
    for bad, message in (
        ({"aqsn": x.aqsn[:3]}, r"aqsn has shape \(3, 20\); beside aqsm and eps it is \(4, 20\)"),
        ({"vcoul": x.vcoul[:3]}, "vcoul has shape"),
        ({"vcoul": x.vcoul * 1j}, "vcoul is real, not complex128"),
        ({"wx": np.ones((3, 2))}, "wx has shape"),
        ({"wx": []}, "wx is empty"),
        ({"nvband": 5}, "nvband is from 0 to the 4 bands, not 5"),
        ({"aqsm": x.aqsm[0]}, "aqsm and eps are matrices"),
        ({"inv_igp_index": np.full(10, 21)}, "inv_igp_index has indices from 21 to 21; allowed are 0 to 20"),
        ({"indinv": np.full(21, 20)}, "indinv has indices from 20 to 20; allowed are 0 to 19"),
    ):
        with pytest.raises(ValueError, match=message):
            Problem(**{**good, **bad})
    with pytest.raises(ValueError, match="no poles 'far': choose one of away, near"):
        Problem.random(4, 2, 20, 2, poles="far")
    with pytest.raises(ValueError, match="no form 'tiles': choose one of ngpw"):
        self_energy(x, "tiles")
    with pytest.raises(ValueError, match="form 'npgw' has no product for backend 'cpu-packed'"):
        self_energy(x, "npgw", backend="cpu-packed")


def test_energies_make_frequencies():
    assert frequencies(3).tolist() == [3, 4, 5]
    assert frequencies(2, e_lk=5.0, e_n1kq=[6.0, 2.0]).tolist() == [[1e-6, 1e-6], [2, 3]]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("poles", ["away", "near"])
def test_every_form_on_every_device(place, poles):
    for shape in [(1, 0, 1, 1), (7, 3, 33, 5), (9, 9, 70, 1), (40, 2, 257, 20)]:
        problem = Problem.random(*shape, nend=int(RNG.integers(1, 7)), seed=fresh_seed(), poles=poles)
        resident = DeviceProblem(problem, place)
        for form in ON_DEVICE:
            for given in (problem, resident):  # "split" knows the rates from its second call on
                found = self_energy(given, form, backend=place)
                assert largest_error(found, problem) <= bound(problem, form)


@pytest.mark.optimised
@pytest.mark.parametrize("place", FIRST_PLACES)
def test_devices_to_the_mini_apps_test_size(place):
    for poles in ("away", "near"):
        problem = Problem.random(512, 2, 512, 20, seed=fresh_seed(), poles=poles)
        for form in ON_DEVICE[1:]:
            assert largest_error(self_energy(problem, form, backend=place), problem) <= 1e-13


@pytest.mark.parametrize("place", FIRST_PLACES)
def test_bands_with_their_own_energies_on_a_device(place):
    problem = Problem.random(12, 5, 60, 4, seed=fresh_seed())
    problem.wx = frequencies(3, e_n1kq=RNG.choice([5.0, 6.0, 5.5], 12))
    for form in ON_DEVICE:
        assert largest_error(self_energy(problem, form, backend=place), problem) <= bound(problem, form)


@pytest.mark.parametrize("place", FIRST_PLACES)
def test_all_ways_to_a_devices_memory(place):
    problem = Problem.random(12, 5, 60, 4, seed=fresh_seed())
    expected = self_energy(DeviceProblem(problem, place), "device-fused")
    for memory in MODES[place.partition(":")[0]]:
        found = self_energy(DeviceProblem(problem, place, memory), "device-fused")
        np.testing.assert_array_equal([found.ach, found.asx], [expected.ach, expected.asx], memory)


def test_what_a_device_cannot_do_is_said():
    problem = Problem.constant(2, 1, 8, 2)
    for wrong, says in (("hip", "no runtime 'hip'"), ("opencl:99", "opencl has no device '99'")):
        with pytest.raises((ValueError, BackendUnavailable), match=says):
            self_energy(problem, "device-fused", backend=wrong)
    for place in FIRST_PLACES:
        runtime = place.partition(":")[0]
        with pytest.raises(ValueError, match=f"{runtime} has no memory 'cloud'"):
            DeviceProblem(problem, place, "cloud")
        resident = DeviceProblem(problem, place)
        with pytest.raises(ValueError, match="is computed by the CPU"):
            self_energy(resident, "fused")
        with pytest.raises(ValueError, match="leave the backend out"):
            self_energy(resident, "device-fused", backend="cuda:7")
        if (resident.queue.device.compute_capability or 0) < 90:
            with pytest.raises(UnsupportedProblem, match="choose device-fused"):
                self_energy(resident, "device-tensor")
        if runtime != "cuda":
            with pytest.raises(UnsupportedProblem, match="needs cuBLAS"):
                self_energy(resident, "device-library")


def test_the_kernels_compile_for_nvidias_gpus():
    nvrtc_here()
    for form, variants in VARIANTS.items():
        for variant in variants.values():
            text = kernel_text("common/cuda.h") + source_of(variant.kernel, "UNIT" in variant.defines)
            assert compile_source(text, variant.defines, "sm_90"), form


@needs_compiler
def test_a_matrix_unit_gives_what_multiply_adds_give(tmp_path):
    bands, occupied, rows, columns, nend = 19, 5, 70, 90, 2

    def complexes(*shape):
        x = aligned(2 * math.prod(shape), np.float64)
        x[:] = RNG.random(x.size) - 0.5
        return x

    left, aqsn, eps = complexes(bands, rows), complexes(bands, columns), complexes(rows, columns)
    wt, vcoul, wx = complexes(rows, columns) + 9.0, RNG.random(rows), RNG.random(nend)
    found = []
    for form in ("device-fused", "device-tensor"):
        variant = VARIANTS[form]["gpu"]
        groups = -(-rows // variant.tile[0]), -(-columns // variant.tile[1]), 1
        sums = complexes(groups[0] * groups[1] * (2 * nend + 1))
        memory = [left, aqsn, np.arange(bands, dtype=np.int32), eps, wt, vcoul, wx, sums]
        counts = (bands, occupied, 0, rows, columns, nend)
        arguments = (*counts, *[Place.A] * len(memory))
        text = source_of("fused", "UNIT" in variant.defines)
        launch = Launch(text, "fused", variant.defines, groups, variant.group, arguments)
        run(launch, [x.ctypes.data for x in memory], tmp_path)
        found.append(sums.copy())
    assert np.all(np.isfinite(found[0]))
    assert np.allclose(*found, rtol=1e-9, atol=1e-9 * abs(found[0]).max())
