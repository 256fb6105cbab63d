"""The report's page: whole, self-contained, readable in order, and never half-written."""

import itertools
import json
import re
import subprocess
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import made_up_records as made
import pytest
from sweeps import swept

from gemmlab import _errors, report
from gemmlab._words import listed, number, percent, seconds, size
from gemmlab.analysis.formatting import sentence
from gemmlab.analysis.groups import with_unique_devices
from gemmlab.cli import main
from gemmlab.measure.records import KEYS

Record = dict[str, Any]
# The facts of the points, and one script.
OUR_SCRIPTS: list[dict[str, str | None]] = [{"type": "application/json", "id": "points"}, {}]
needs_drawing = pytest.mark.skipif(
    not (find_spec("matplotlib") and find_spec("jinja2")), reason="needs the extra 'report'"
)


class Page(HTMLParser):
    """What a test asks of a page: its elements, ids, headings and text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data.replace("\u00a0", " ")

    def all(self, name: str) -> list[str]:
        """Every value of an attribute."""
        return [value for _, attributes in self.tags if (value := attributes.get(name)) is not None]

    def count(self, *tags: str) -> int:
        return sum(tag in tags for tag, _ in self.tags)

    def drawn_points(self) -> set[str]:
        """The ids of all points in figures."""
        return {value for value in self.all("id") if re.search(r"-b\d+-point\d+$", value)}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The page of a whole run, written once."""
    path = report.render(made.machine(), tmp_path_factory.mktemp("out") / "report")
    return path, path.read_text(encoding="utf-8")


def view_box(path: Path) -> tuple[float, float]:
    """Width and height of an SVG file."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', path.read_text())
    assert found is not None
    return float(found[1]), float(found[2])


def page_of(tmp_path: Path, *records: Record) -> Page:
    return Page(report.render(records, tmp_path / "report").read_text(encoding="utf-8"))


@needs_drawing
class TestWhole:
    def test_the_path_is_that_of_the_page(self, whole: tuple[Path, str]):
        assert whole[0].name == "index.html"

    def test_asks_nothing_of_the_network(self, whole: tuple[Path, str]):
        page = Page(whole[1])
        assert page.count("img", "iframe", "object") == 0
        assert [attributes for tag, attributes in page.tags if tag == "script"] == OUR_SCRIPTS
        assert all(
            value.startswith(("#", "data:")) for name in ("href", "src", "xlink:href") for value in page.all(name)
        )
        outside = [url for url in re.findall(r"https?://[^\s\"'<)]+", whole[1]) if "w3.org" not in url]
        assert outside == []
        assert "@import" not in whole[1]
        assert set(re.findall(r"url\((.)", whole[1])) <= {"#"}

    def test_is_small(self, whole: tuple[Path, str]):
        assert len(whole[1].encode()) < 1_500_000

    def test_ids_are_unique_and_every_reference_has_its_target(self, whole: tuple[Path, str]):
        page = Page(whole[1])
        ids = page.all("id")
        assert len(ids) == len(set(ids))
        targets = [value[1:] for name in ("href", "xlink:href") for value in page.all(name) if value.startswith("#")]
        targets += re.findall(r"url\(#([^)]+)\)", whole[1]) + page.all("aria-labelledby")
        assert set(targets) <= set(ids)

    def test_headings_are_in_order(self, whole: tuple[Path, str]):
        levels = [int(tag[1]) for tag, _ in Page(whole[1]).tags if re.fullmatch(r"h[1-6]", tag)]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(after <= before + 1 for before, after in itertools.pairwise(levels))

    def test_every_figure_has_a_title_and_both_files(self, whole: tuple[Path, str]):
        page = Page(whole[1])
        assert page.count("figure") == 8
        assert page.count("title") == 2 + page.count("figure")  # the page's, and the first figure has two forms
        names = [value.removesuffix("-heading") for value in page.all("id") if value.endswith("-heading")]
        for name in names:
            assert (whole[0].parent / f"{name}.png").stat().st_size > 1000
            assert (whole[0].parent / f"{name}.svg").read_text().startswith("<?xml")

    def test_the_roofline_is_the_first_figure_and_comes_after_the_answer(self, whole: tuple[Path, str]):
        before, lead, after = (whole[1].index(part) for part in ('class="answer"', 'class="lead"', 'class="verdicts"'))
        assert before < lead == whole[1].rindex('class="lead"', 0, whole[1].index("<figure")) < after
        assert "Roofline, float32, 2 threads" in whole[1][lead:after]
        wide, narrow = (view_box(whole[0].parent / f"{name}roofline-float32-2t.svg") for name in ("wide-", ""))
        assert wide[0] > 2 * narrow[0]

    @pytest.mark.exhaustive
    def test_gpu_rungs_on_the_cpu_have_a_section_at_the_end(self, tmp_path: Path):
        on_cpu = {"device": f"{made.DEVICE} (PoCL)"}
        rung = made.gpu_product("opencl-naive", 256, 3.0) | on_cpu
        text = page_of(tmp_path, rung, *made.machine()).text
        assert f"Matrix multiplication on {made.DEVICE}\n" in text
        assert text.index("How it was measured") < text.rindex("The GPU rungs on this CPU") < text.index("through PoCL")

    def test_shows_what_it_should(self, whole: tuple[Path, str]):
        text = Page(whole[1]).text
        for part in (
            f"Matrix multiplication on {made.DEVICE}",
            "cpu-packed is the fastest",
            "Roofline, float32, 2 threads",
            "Speed over size, float64, 2 threads",
            "Suite “layers”, float32",
            "BLIS is not installed",
            "Of 5 findings of the source",
            "Multiply-adds, GFLOP/s",
            "openblas, 0.3.31",
            "lower bound",
        ):
            assert part in text, part

    def test_every_point_has_its_facts_and_all_facts_have_a_point(self, whole: tuple[Path, str]):
        facts = facts_of(whole[1])
        assert set(facts) == Page(whole[1]).drawn_points()
        assert all({"Backend", "Problem", "GFLOP/s (p20 to p80)"} <= set(told) for told in facts.values())
        assert {"cpu-packed", "cpu-naive"} <= {told["Backend"] for told in facts.values()}
        assert [*next(iter(facts.values()))][:2] == ["Backend", "Problem"]

    def test_the_parts_of_a_backend_share_a_family(self, whole: tuple[Path, str]):
        families: dict[str, set[str]] = {}
        for value in Page(whole[1]).all("id"):
            if value.startswith("roofline-float32-2t-b"):
                family, part = value.rsplit("-", 1)
                families.setdefault(family, set()).add(part.rstrip("0123456789"))
        assert len(families) == len(made.LADDER)
        assert all(found == {"path", "point", "leader", "sign", "name"} for found in families.values())

    def test_figures_have_the_colours_of_the_page(self, whole: tuple[Path, str]):
        figures = whole[1][whole[1].index("<figure") : whole[1].rindex("</figure>")]
        assert set(re.findall(r"#[0-9a-f]{6}\b", figures)) == set()
        used = set(re.findall(r"var\((--c[0-9a-f]{6})\)", whole[1]))
        dark = whole[1][whole[1].index("prefers-color-scheme: dark") :]
        assert all(f"{name}: #" in dark for name in used)

    def test_every_figure_leads_to_its_table(self, whole: tuple[Path, str]):
        page = Page(whole[1])
        links = re.findall(r'<figcaption>.*?<a href="#([^"]+)">The numbers: ', whole[1], re.DOTALL)
        assert len(links) == page.count("figure")
        tables = re.findall(r'<div class="table" id="([^"]+)"', whole[1])
        assert set(links) <= set(tables)
        assert page.count("caption") == page.count("table")
        assert all(attributes.get("scope") for tag, attributes in page.tags if tag == "th")

    def test_the_first_words_answer_three_questions(self, whole: tuple[Path, str]):
        text = Page(whole[1]).text
        places = [text.index(part) for part in ("Fastest here", "Distance to the limit", "What limits the others")]
        assert places == sorted(places)
        assert places[-1] < text.index("is at most")  # the first verdict's last sentence

    @pytest.mark.exhaustive
    def test_is_the_same_from_the_same_records(self, whole: tuple[Path, str], tmp_path: Path):
        assert report.render(made.machine(), tmp_path).read_text(encoding="utf-8") == whole[1]


def facts_of(html: str) -> dict[str, dict[str, str]]:
    """What the page's points say, by their ids."""
    found = re.search(r'<script type="application/json" id="points">(.*?)</script>', html, re.DOTALL)
    assert found is not None
    facts: dict[str, dict[str, str]] = json.loads(found[1])
    return facts


def run_with(*records: Record) -> Callable[[], list[Record]]:
    return lambda: [*records]


PARTIAL: dict[str, Callable[[], list[Record]]] = {
    "no ceilings": lambda: made.ladder((64, 512)),
    "ceilings alone": made.ceilings,
    "bandwidth alone": lambda: [record for record in made.ceilings() if record["ceiling"] != "fma"],
    "peak alone": lambda: [*made.ladder((64,)), *(r for r in made.ceilings() if r["ceiling"] == "fma")],
    "no cpu-ikj": lambda: [*made.ladder((64, 512), without=["cpu-ikj"]), *made.ceilings()],
    "one backend at one size": run_with(made.gemm("cpu-naive", 64, 1.0, threads=1)),
    "all skipped": run_with(*(made.not_run(name, "skipped", "absent") for name in ("cpu-mkl", "cpu-blis"))),
    "all wrong": run_with(made.not_run("cpu-mkl", "wrong", "the error is 9 times its bound")),
    "failed without a reason": run_with(made.not_run("cpu-mkl", "failed", "")),
    "no square": made.layers,
    "a one-dimensional product": run_with(made.gemm("cpu-x", (1, 1, 1), 1e-5), made.gemm("cpu-y", (1, 1, 1), 1e-4)),
    "the reader's own matrices": run_with(made.gemm("cpu-x", (30, 40, 50), suite="files", label="30x40x50")),
    "unchecked": run_with(made.gemm("cpu-x", error_over_bound=None, copies=None)),
    "error of zero": run_with(made.gemm("cpu-x", error_over_bound=0.0)),
    "above the roof": lambda: [made.gemm("cpu-x", 2048, 999), made.gemm("cpu-y", 512, 5), *made.ceilings()],
    "unknown environment": run_with(made.gemm("cpu-x") | {"environment": {}}, made.ceiling("sweep", gb_per_s=9.0,
                                    operation="load", working_set_bytes=8192) | {"environment": {}}),
    "many long names": lambda: [made.gemm(f"opencl-register-global-{i}", 512, 10 + i, transfers_counted=True)
                                for i in range(14)],
    "a GPU of its own kind": lambda: [*made.gpu(),
                                      made.ceiling("latency", isa="opencl", threads=None) | {"device": made.GPU},
                                      made.ceiling("bandwidth", level="HBM", operation="load", gb_per_s=9.0),
                                      made.ceiling("sweep", operation="store", working_set_bytes=8192, gb_per_s=9.0)],
    "a GPU's ceilings alone": made.gpu_ceilings,
    "transfers alone": lambda: [ceiling for ceiling in made.gpu_ceilings() if ceiling["ceiling"] == "transfer"],
    "a GPU": lambda: [record | {"device": "A GPU", "threads": None}
                      for record in [made.gemm("opencl-local", 512, 99), made.gemm("opencl-naive", 512, 9),
                                     *made.ceilings()]],
}  # fmt: skip


@needs_drawing
@pytest.mark.parametrize("name", swept(PARTIAL))
def test_missing_pieces_still_make_a_page(name: str, tmp_path: Path):
    page = page_of(tmp_path, *PARTIAL[name]())
    assert page.count("h1") == 1
    assert "None" not in page.text
    assert "nan" not in page.text.split()


@needs_drawing
def test_listed_products_have_a_verdict_each_in_their_order(tmp_path: Path):
    records = [made.gemm(name, (90, 80, 70 + place), speed, suite="cases", label=f"{label} <{place}>")
               for place, label in enumerate(("zeta", "alpha"))
               for name, speed in (("cpu-packed", 100), ("cpu-blas", 50))]  # fmt: skip
    absent = made.not_run("cpu-mkl", "skipped", "absent")
    records.append(absent | {"problem": records[0]["problem"] | {"label": "none"}})
    page = report.render([*records, *made.ceilings()], tmp_path).read_text(encoding="utf-8")
    listed = page[page.index("The products you listed") : page.index("Backend by backend", page.index("you listed"))]
    places = [listed.index(text) for text in ("zeta &lt;0&gt;: m", "alpha &lt;1&gt;: m", "none: m")]
    assert places == sorted(places)
    assert listed.count("<code>cpu-packed</code>") == 2
    assert "No backend was timed." in listed


@needs_drawing
class TestGroups:
    @pytest.mark.exhaustive
    def test_one_section_a_device_each_with_its_own_figures(self, tmp_path: Path):
        gpu = [record | {"device": "A GPU"} for record in [*made.ladder((64, 512)), *made.ceilings(peak=900)]]
        page = page_of(tmp_path, *made.ladder((64, 512)), *made.ceilings(), *gpu)
        assert "Matrix multiplication on 2 devices" in page.text
        assert {"device1", "device2", "roofline-float32-2t-heading", "roofline-float32-2t-device2-heading"} <= set(
            page.all("id")
        )
        assert len(page.all("id")) == len(set(page.all("id")))

    @pytest.mark.exhaustive
    def test_a_cpu_and_a_gpu_have_a_section_each(self, tmp_path: Path):
        page = page_of(tmp_path, *made.machine(), *made.gpu())
        figures = {value.removesuffix("-heading") for value in page.all("id") if value.endswith("-heading")}
        gpus = {"roofline-float32", "speed-float32", "speed-float32-transfers"}
        assert {name.removesuffix("-device2") for name in figures if name.endswith("-device2")} == gpus
        cpu, gpu = page.text[page.text.index("The answer") :].split(made.GPU, 1)
        assert "Speed over size, float32 + transfers" in gpu
        assert "transfers" not in cpu
        for part in ("6710 GFLOP/s", "45 % of the measured peak of 15000 GFLOP/s", "Transfers between host and device"):
            assert part in gpu, part
        assert "only in times marked “+ transfers”" in gpu
        assert "thread" not in gpu[: gpu.index("How it was measured")]
        local = (tmp_path / "report" / "roofline-float32-device2.svg").read_text()
        assert "local 6000 GB/s" in local
        assert "opencl, 15000" in local
        assert "L2" not in local

    @pytest.mark.exhaustive
    def test_several_devices_are_answered_in_short_first(self, tmp_path: Path):
        skipped = made.not_run("sycl-naive", "skipped", "dpctl is not installed", device="A CPU beside", threads=None)
        page = page_of(tmp_path, skipped, *made.gpu(), *made.machine())
        short = page.text[page.text.index("In short") : page.text.index("The answer")]
        places = [short.index(part) for part in (made.GPU, "opencl-clblast is the fastest", made.DEVICE,
                                                 "cpu-packed is the fastest", "A CPU beside")]  # fmt: skip
        assert places == sorted(places)

    @pytest.mark.exhaustive
    def test_files_of_two_machines_make_one_page(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
        one, two = (made.ladder((64, 512)), made.gpu((64, 512)))
        for name, own in (("one", one), ("two", two)):
            lines = [json.dumps(dict.fromkeys(KEYS[r["kind"]]) | r) for r in own]
            (tmp_path / name).write_text("\n".join(lines))
        paths = [str(tmp_path / name) for name in ("one", "two", "out")]
        status = main(["report", "--from", *paths[:2], "--out", paths[2]])
        assert status == 0, capsys.readouterr().err
        text = Page((tmp_path / "out" / "index.html").read_text(encoding="utf-8")).text
        assert "Matrix multiplication on 2 devices" in text
        assert f"{len(one) + len(two)} records" in text

    def test_thread_counts_are_kept_apart(self, tmp_path: Path):
        one = [made.gemm(name, 512, 20, threads=1) for name in ("cpu-packed", "cpu-numpy")]
        two = [made.gemm(name, 512, 40, threads=2) for name in ("cpu-packed", "cpu-numpy")]
        page = page_of(tmp_path, *one, *two)
        assert {"speed-float32-1t-heading", "speed-float32-2t-heading"} <= set(page.all("id"))


@needs_drawing
class TestMachinesOfOneName:
    @staticmethod
    def on(cpus: int, l2: int, **keys: Any) -> made.Record:
        caches = {"L1": 48 << 10, "L2": l2, "L3": 32 << 20}
        facts = made.environment(cpus_machine=cpus, cache_bytes=caches)
        return made.gemm("cpu-ikj", 64, **keys) | {"environment": facts}

    def test_one_machine_keeps_its_name(self):
        records = [self.on(2, 1 << 20), self.on(2, 1 << 20, threads=1)]
        assert with_unique_devices(records) == records

    def test_each_has_a_name(self):
        records = [self.on(2, 1 << 20), self.on(16, 1 << 20), self.on(16, 2 << 20), self.on(2, 1 << 20)]
        names = [f"{made.DEVICE}, {rest}" for rest in ("2 CPUs", "16 CPUs", "16 CPUs (2)", "2 CPUs")]
        assert [record["device"] for record in with_unique_devices(records)] == names

    def test_a_device_is_no_processor(self):
        records = [self.on(cpus, 1 << 20, device=made.GPU, threads=None) for cpus in (2, 16)]
        assert with_unique_devices(records) == records


class TestWriting:
    def test_no_records(self, tmp_path: Path):
        with pytest.raises(ValueError, match="no records"):
            report.render([], tmp_path / "report")
        assert not (tmp_path / "report").exists()

    def test_names_and_reasons_are_text_not_markup(self, tmp_path: Path):
        evil = "<script>alert(1)</script>"
        records = [made.gemm(evil, 64), made.not_run("cpu-x", "failed", evil), *made.ceilings()]
        page = page_of(tmp_path, *(record | {"device": evil} for record in records))
        assert [attributes for tag, attributes in page.tags if tag == "script"] == OUR_SCRIPTS
        assert evil in page.text
        assert page.drawn_points()

    def test_other_files_stay_and_nothing_else_is_left(self, tmp_path: Path):
        folder = tmp_path / "report"
        folder.mkdir()
        (folder / "records.jsonl").write_text("{}\n")
        report.render([made.gemm("cpu-x", 64)], folder)
        assert (folder / "records.jsonl").read_text() == "{}\n"
        assert [path.name for path in tmp_path.iterdir()] == ["report"]

    def test_an_error_half_way_leaves_the_old_report(self, tmp_path: Path):
        page = report.render([made.gemm("cpu-x", 64)], tmp_path / "report")
        before = {path.name: path.read_bytes() for path in page.parent.iterdir()}
        with pytest.raises(KeyError):
            report.render([made.gemm("cpu-y", 64), {"kind": "gemm", "device": "broken"}], page.parent)
        assert {path.name: path.read_bytes() for path in page.parent.iterdir()} == before
        assert [path.name for path in tmp_path.iterdir()] == ["report"]

    def test_a_place_that_cannot_be_written_is_one_line(self, tmp_path: Path):
        (tmp_path / "file").write_text("")
        with pytest.raises(_errors.CannotWrite, match=r"cannot write into .*file"):
            report.render([made.gemm("cpu-x", 64)], tmp_path / "file")

    def test_rooflines_alone(self, tmp_path: Path):
        paths = report.draw_rooflines(made.machine(), tmp_path / "roofline")
        assert sorted(path.name for path in paths) == sorted(
            f"{figure}-{dtype}-2t{ending}"
            for figure in ("roofline", "levels", "speed")
            for dtype in ("float32", "float64")
            for ending in (".svg", ".png")
        )
        assert all(path.exists() for path in paths)
        assert len(report.draw_rooflines(made.ceilings(), tmp_path / "roofs")) == 2

    def test_nothing_to_draw_a_roofline_from(self, tmp_path: Path):
        for records in ([], [made.not_run("cpu-x", "skipped", "absent")]):
            with pytest.raises(ValueError, match="neither a timed product nor a ceiling"):
                report.draw_rooflines(records, tmp_path / "roofs")


class TestPackages:
    def test_a_missing_package_is_one_line_with_the_remedy(self, monkeypatch: pytest.MonkeyPatch):
        monkeypatch.setattr(report, "find_spec", lambda name: None)
        with pytest.raises(_errors.GemmlabError, match=r"needs matplotlib and jinja2: pip install 'gemmlab\[report\]'"):
            report.require()

    @staticmethod
    def run(code: str) -> None:
        folder = str(Path(made.__file__).parent)
        done = subprocess.run(
            [sys.executable, "-c", f"import sys; sys.path.append({folder!r}); {code}"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr

    def test_sentences_need_no_drawing_package(self):
        self.run(
            "sys.modules['matplotlib'] = sys.modules['jinja2'] = None; import made_up_records as made;"
            "from gemmlab.analysis import findings, groups, verdicts; from gemmlab.report import method, tables;"
            "verdicts.answers(groups.devices(made.machine())[0].groups[0])"
        )

    @needs_drawing
    def test_drawing_leaves_pyplot_alone(self):
        self.run("import gemmlab.report.page; assert 'matplotlib.pyplot' not in sys.modules")


class TestWords:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (0, "0"),
            (None, "–"),
            (0.000034, "3.4e-05"),
            (0.1234, "0.123"),
            (12345, "12300"),
            (999.6, "1000"),
            (2e7, "2.0e+07"),
        ],
    )
    def test_numbers(self, value: float | None, text: str):
        assert number(value) == text

    def test_units(self):
        assert [seconds(value) for value in (2.0, 3e-3, 4e-6, 5e-9, None)] == ["2 s", "3 ms", "4 µs", "5 ns", "–"]
        assert [size(value) for value in (100, 49152, 3 << 20, 2 << 30)] == ["100 B", "48 KiB", "3 MiB", "2 GiB"]
        assert [percent(value) for value in (1.0, 0.0995, 0.042, 0.0)] == ["100 %", "10 %", "4.2 %", "0 %"]

    def test_lists_and_sentences(self):
        assert [listed([]), listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])] == [
            "",
            "a",
            "a and b",
            "a, b and c",
        ]
        assert sentence("do it") == "Do it."
        assert sentence("cpu-x failed") == "cpu-x failed."
        assert sentence("") == ""
