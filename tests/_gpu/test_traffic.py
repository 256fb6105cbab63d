"""The traffic models of the GPU rungs."""

from __future__ import annotations

import numpy as np
import pytest
from devices import FIRST_PLACES, backend_at

import gemmlab
from gemmlab._gpu.ladder.rungs import RUNG_NAMES, RUNGS
from gemmlab._gpu.ladder.traffic import private, traffic_bytes
from gemmlab._problem import Problem


def modelled(name, m, n, k, dtype="float32", **params):
    rung = RUNGS[RUNG_NAMES.index(name)]
    problem = Problem.from_call(np.zeros((m, k), dtype), np.zeros((k, n), dtype))
    return traffic_bytes(rung.model, problem, rung.resolve(params, "gpu"))


def test_the_models_count_what_the_kernels_read_and_write():
    m, n, k = 64, 128, 256
    mnk, c = m * n * k, m * n
    assert modelled("naive", m, n, k)["l1"] == modelled("register-global", m, n, k)["l1"] == 4 * 4 * mnk
    assert modelled("private", m, n, k)["l1"] == 4 * (2 * mnk + c)
    tiles = mnk // 16 + mnk // 8
    local = modelled("local", m, n, k, tile_x=16, tile_y=8)
    assert (local["l1"], local["local"]) == (4 * (tiles + c), 4 * (tiles + 2 * mnk))
    local4 = modelled("local4", m, n, k, tile=32, per_item=4)
    tiles = mnk // 32 * 2
    assert (local4["l1"], local4["local"]) == (4 * (tiles + c), 4 * (tiles + mnk * 5 // 4))
    assert modelled("register", m, n, k, tile_x=8, tile_y=4)["l1"] == 4 * (mnk // 8 + mnk // 4 + c)


def test_a_partial_tile_counts_as_a_tile():
    assert modelled("register", 5, 9, 7, tile_x=8, tile_y=4)["l1"] == 4 * (5 * 7 * 2 + 7 * 9 * 2 + 5 * 9)


@pytest.mark.parametrize("name", RUNG_NAMES)
def test_dram_traffic_is_each_operand_once(name):
    found = modelled(name, 96, 80, 64, "float64")
    assert found["dram"] == 8 * (96 * 64 + 64 * 80 + 96 * 80)
    assert found["l1"] >= found["dram"]


def test_a_batch_moves_as_much_as_its_products():
    batch = Problem.from_call(np.zeros((3, 4, 4)), np.zeros((4, 4)))
    one = Problem.from_call(np.zeros((4, 4)), np.zeros((4, 4)))
    assert traffic_bytes(private, batch, {})["l1"] == 3 * traffic_bytes(private, one, {})["l1"]


@pytest.mark.parametrize("place", FIRST_PLACES)
def test_a_backend_models_the_parameters_of_the_call(place):
    backend = gemmlab.get_backend(backend_at(place, "register"))
    problem = Problem.from_call(np.zeros((64, 64), "float32"), np.zeros((64, 64), "float32"))
    coarse, fine = (backend.traffic(problem, {}, tile_x=size, tile_y=size)["l1"] for size in (8, 2))
    assert fine > coarse
    assert backend.traffic(problem, {})["dram"] == 3 * 4 * 64 * 64
