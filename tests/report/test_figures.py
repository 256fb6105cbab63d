"""The report's figures: what they draw, ring and tell; how they look is for eyes."""

from importlib.util import find_spec
from typing import Any

import made_up_records as made
import pytest

from gemmlab.analysis.attainable import limits, limits_by_backend, rate_band
from gemmlab.analysis.groups import Group, devices
from gemmlab.report.tables import levels as level_tables

if find_spec("matplotlib") is None:
    pytest.skip("needs the extra 'report'", allow_module_level=True)

from matplotlib.figure import Figure

from gemmlab.report.drawing import DARK, KNOWN, OTHERS, inline, variable
from gemmlab.report.figure_set import GROUP_FIGURES, styles_of
from gemmlab.report.points import facts_of, markers_of

Record = dict[str, Any]
MODEL = {"bytes_model_l1": 4e9, "bytes_model_l2": 1e9, "bytes_model_l3": 2e8, "bytes_model_dram": 5e7}


def group_of(*records: Record) -> Group:
    return devices(records)[0].groups[0]


def modelled(backend: str = "cpu-blocked", rate: float = 45, **keys: Any) -> Record:
    """A product of N = 2048, 17.2 GFLOP: 4.29, 17.2, 85.9 and 344 flop a byte from L1, L2, L3 and DRAM."""
    return made.gemm(backend, gflop_per_s=rate, **(MODEL | keys))


def drawn(name: str, *records: Record) -> Figure | None:
    device = devices(records)[0]
    return GROUP_FIGURES[name][0](device.groups[0], styles_of(device))


def texts(figure: Figure | None) -> list[str]:
    assert figure is not None
    axes = figure.axes[0]
    return [text.get_text() for text in (*axes.texts, *figure.texts)]


class TestLevels:
    def test_a_modelled_product_has_a_place_under_every_level(self):
        found = limits(group_of(modelled(), *made.ceilings()), modelled())
        assert [limit.level for limit in found] == ["L1", "L2", "L3", "DRAM"]
        assert [limit.definition for limit in found] == ["modelled"] * 4
        assert found[0].intensity == pytest.approx(17.18 / 4, rel=1e-3)
        assert all(limit.share == pytest.approx(45 / 280) for limit in found)

    @pytest.mark.parametrize(("size", "level"), [(64, "L1"), (2048, "L3"), (4096, "DRAM")])
    def test_without_a_model_it_is_the_one_that_feeds_and_each_operand_once(self, size: int, level: str):
        (only,) = limits(group_of(made.gemm("cpu-mkl", size), *made.ceilings()), made.gemm("cpu-mkl", size))
        assert (only.level, only.definition, only.holds) == (level, "compulsory", True)

    def test_what_is_behind_a_cache_that_has_the_operands_is_no_roof(self):
        slow = modelled(bytes_model_dram=4e12)  # DRAM would allow 0.17 GFLOP/s, but N = 2048 stays in L3
        group = group_of(slow, *made.ceilings())
        assert [limit.holds for limit in limits(group, slow)] == [True, True, True, False]
        assert not any(limit.is_exceeded for limit in limits(group, slow))
        (table,) = level_tables(group)
        assert table.rows[-1].cells[-2:] == ("–", "–")

    def test_above_a_roof(self):
        slow = modelled(bytes_model_l1=4e11, rate=45)  # L1 allows 620 x 0.043 = 27
        found = limits(group_of(slow, *made.ceilings()), slow)
        assert [limit.is_exceeded for limit in found] == [True, False, False, False]

    def test_without_ceilings_there_is_none(self):
        assert limits_by_backend(group_of(modelled())) == {}

    def test_the_table_has_every_definition_and_the_disagreement(self):
        record = modelled(bytes_simulated_l2=8e8)
        (table,) = level_tables(group_of(record, *made.ceilings()))
        rows = {row.cells[0]: dict(zip(table.columns, row.cells, strict=True)) for row in table.rows}
        assert rows["L2"]["Model against simulation"] == "+25 %"
        assert rows["L2"]["Flop per byte, simulated"] == "21.5"
        assert rows["L1"]["Flop per byte, simulated"] == "–"
        assert level_tables(group_of(modelled())) == []

    def test_columns_without_numbers_are_left_out(self):
        (table,) = level_tables(group_of(modelled(), *made.ceilings()))
        assert "Flop per byte, simulated" not in table.columns
        assert "Model against simulation" not in table.columns


class TestRoofs:
    def test_bands_run_from_p80_to_p20(self):
        peak = made.ceiling("fma", gflop_per_s=100.0) | {"min_s": 1.0, "p20_s": 1.25, "p80_s": 2.0}
        memory = made.ceiling("bandwidth", gb_per_s=100.0) | {"median_s": 1.0, "p20_s": 0.8, "p80_s": 2.0}
        assert rate_band(peak) == (50.0, 80.0)
        assert rate_band(memory) == (50.0, 125.0)
        assert rate_band(peak | {"p20_s": None}) is None

    def test_every_instruction_set_has_a_line_and_the_one_in_use_is_marked(self):
        scalar = made.ceiling("fma", isa="scalar", gflop_per_s=9.0)
        said = texts(drawn("roofline", modelled(), scalar, *made.ceilings()))
        assert {"v4 in use, 280", "v3 146", "v2 70", "scalar 9", "memory-bound", "by level", "compute-bound"} <= {*said}


class TestFigures:
    def test_a_dot_a_level_and_the_lowest_roofs_is_large(self):
        figure = drawn("levels", modelled(bytes_model_l1=4e10), made.gemm("cpu-mkl"), *made.ceilings())
        dots = [dot for dot in markers_of(figure).values() if dot.backend == "cpu-blocked"]
        assert [dot.get_marker() for dot in dots] == ["o", "s", "^", "D"]
        assert [dot.get_markersize() for dot in dots] == [8, 5, 5, 5]
        (bare,) = (dot for dot in markers_of(figure).values() if dot.backend == "cpu-mkl")
        assert bare.get_markerfacecolor() == "white"

    def test_no_model_no_figure_of_levels(self):
        assert drawn("levels", made.gemm("cpu-mkl"), *made.ceilings()) is None
        assert drawn("levels", modelled()) is None

    @pytest.mark.parametrize("name", ["roofline", "speed", "levels"])
    def test_points_above_a_roof_are_ringed_and_never_hidden(self, name: str):
        over = modelled(rate=400)
        assert "ringed: above its roofline" in texts(drawn(name, over, *made.ceilings()))
        assert "ringed: above its roofline" not in texts(drawn(name, modelled(), *made.ceilings()))
        figure = drawn(name, over, *made.ceilings())
        axes = figure.axes[0]
        low, high = axes.get_ylim()
        assert all(low < dot.get_ydata()[0] < high for dot in markers_of(figure).values())

    def test_nothing_moved_from_a_level_is_no_dot_there(self):
        figure = drawn("levels", modelled(bytes_model_l2=0.0), *made.ceilings())
        assert [dot.get_marker() for dot in markers_of(figure).values()] == ["o", "^", "D"]


class TestDetails:
    def test_facts_of_a_dot(self):
        record = modelled(rate=180, params={"bs_r": 96, "schedule": "dynamic"}, bytes_simulated_l2=2e9)
        facts = facts_of(group_of(record, *made.ceilings()), record, "L2")
        assert facts == {
            "Problem": "N = 2048",
            "Parameters": "bs_r 96, schedule dynamic",
            "GFLOP/s (p20 to p80)": "180 (177 to 182)",
            "Flop per byte of L2": "17.2 (modelled)",
            "Lowest limit": "arithmetic, 280 GFLOP/s; reaches 64 %",
            "Error / bound": "0.02",
        }

    def test_what_is_not_known_is_not_told(self):
        record = made.gemm("cpu-mkl", error_over_bound=None)
        assert list(facts_of(group_of(record), record)) == ["Problem", "GFLOP/s (p20 to p80)", "Flop per byte of DRAM"]

    def test_noise_and_its_cause_and_fewer_threads(self):
        record = made.gemm("cpu-mkl", spread=0.5, threads=1, noisy_because="another load took a core")
        facts = facts_of(group_of(record, made.gemm("cpu-x")), record)
        assert (facts["Noisy"], facts["Threads"]) == ("another load took a core", "1 thread")
        unexplained = made.gemm("cpu-mkl", spread=0.5)
        assert facts_of(group_of(unexplained), unexplained)["Noisy"] == "yes"


class TestColours:
    def test_every_look_has_one_for_the_dark(self):
        assert {colour for colour, _ in (*KNOWN.values(), *OTHERS)} <= set(DARK)

    def test_an_inlined_figure_has_variables(self):
        svg = '<svg viewBox="0 0 1 1"><g id="a" style="fill: #1f2328"/><use xlink:href="#a"/></svg>'
        text = inline(svg, "p", "T")
        assert f"fill: var({variable('#1f2328')})" in text
        assert 'id="p-a"' in text
        assert 'xlink:href="#p-a"' in text


@pytest.mark.parametrize(("rate", "words"), [(200, "measured peak 280"), (30, "measured peak 280, far above")])
def test_a_peak_far_above_is_named_and_does_not_flatten_the_rest(rate, words):
    figure = drawn("speed", made.gemm("cpu-packed", gflop_per_s=rate), *made.ceilings())
    axes = figure.axes[0]
    assert words in [text.get_text() for text in axes.texts]
    assert axes.get_ylim()[1] == pytest.approx(280 if rate > 100 else 1.05 * rate)


@pytest.mark.parametrize("name", ["wide-roofline", "roofline", "levels"])
def test_labels_beside_a_roofline_do_not_run_into_each_other(name: str):
    ladder = [modelled(backend, rate) for backend, rate in (("cpu-blocked", 45), ("cpu-packed", 46), ("cpu-ikj", 69))]
    figure = drawn(name, *ladder, made.ceiling("fma", isa="scalar", gflop_per_s=68.0), *made.ceilings())
    assert figure is not None
    axes = figure.axes[0]
    right = axes.get_window_extent().x1
    boxes = [box for text in axes.texts if (box := text.get_window_extent()).x0 >= right]
    assert len(boxes) == 8  # three backends, and five instruction sets
    assert all(not one.overlaps(other) for i, one in enumerate(boxes) for other in boxes[:i])
    assert max(box.x1 for box in boxes) <= figure.bbox.x1
