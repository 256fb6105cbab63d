"""The course as a folder: every page, its links, how it looks in a browser, and what it takes from records."""

from __future__ import annotations

import re
from urllib.parse import unquote

import made_up_records as made
import pytest
from browser import faults, needs_browser, opened
from command import runner
from helpers import DOCS

from gemmlab._config import config
from gemmlab._cpu import machine
from gemmlab.campaign import last
from gemmlab.course import pages, require, rungs, shipped
from gemmlab.course import site as site_module
from gemmlab.course.site import write_course
from gemmlab.report import ReportUnavailable

pytest.importorskip("markdown_it")
EVIL = "a <script>alert(1)</script> | *CPU* `x` & [y](z)"


def own_records(device=made.DEVICE):
    records = [made.gemm(name, n, speed, threads=2) for name, speed in (("cpu-naive", 1.0), ("cpu-ikj", 20.0))
               for n in (256, 512)]  # fmt: skip
    return [record | {"device": device} for record in [*records, *made.ceilings(threads=2)]]


@pytest.fixture(autouse=True, scope="module")
def quick_pages():
    """Drawing takes ten seconds, and tests/test_docs.py draws them all; so does the machine code, as in test_asm.py."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site_module, "_listings", lambda: {"cpu-ikj": "  4.1 % vfmadd231ps ymm0,ymm1,ymm2"})
        for name in ("roofline", "roofline_of_all"):
            patch.setattr(pages, name, lambda *_: '<svg xmlns="http://www.w3.org/2000/svg" width="600" height="400"/>')
        yield


@pytest.fixture(scope="module")
def site(quick_pages, tmp_path_factory):
    return write_course(own_records(), tmp_path_factory.mktemp("course") / "site").parent


def test_every_rung_has_a_page_and_every_link_leads_to_one(site):
    found = {path.name: path.read_text(encoding="utf-8") for path in site.glob("*.html")}
    assert {"index.html", *(f"{rung.page}.html" for rung in rungs.all_rungs())} <= set(found)
    for name, text in found.items():
        assert "http" not in re.sub(r"<script.*?</script>", "", text.replace("http-equiv", ""), flags=re.DOTALL), name
        for link in re.findall(r'(?:href|src)="([^"]*)"', text):
            file, _, anchor = unquote(link).partition("#")
            assert (site / (file or name)).is_file(), (name, link)
            assert not anchor or f'id="{anchor}"' in text, (name, link)


def test_ones_own_figures_stand_beside_those_that_ship(site):
    index = (site / "index.html").read_text(encoding="utf-8")
    assert "“Here” is float32, N = 512 on your machine" in index
    assert "“There” is float32, N = 1008 on two virtual cores of an AMD EPYC" in index
    page = (site / "cpu-ikj.html").read_text(encoding="utf-8")
    assert "20 times the speed of cpu-naive" in page
    assert page.index("Your machine") < page.index("Sixteen virtual cores")


def test_the_machine_code_stands_where_it_could_be_listed_and_else_its_command(site):
    assert "4.1 % vfmadd231ps" in (site / "cpu-ikj.html").read_text(encoding="utf-8")
    assert "gemmlab asm cpu-naive" in re.sub("<.*?>", "", (site / "cpu-naive.html").read_text(encoding="utf-8"))


@needs_browser
def test_a_prediction_stands_beside_the_measurement(site, tmp_path):
    page = site / "cpu-ikj.html"
    hidden = re.search(r'<p class="gain"[^>]*>', opened(page))[0]
    assert "hidden" in hidden
    act = 'const form = document.querySelector("form.predict"); form.querySelector("input").value = "40";'
    answered = page.with_name("answered.html")
    script = f'<script>{act} form.querySelector("button").click()</script></body>'
    answered.write_text(page.read_text(encoding="utf-8").replace("</body>", script), encoding="utf-8")
    seen = opened(answered)
    assert "You: 40. Measured: 20. 2.0 times too much." in seen
    assert "hidden" not in re.search(r'<p class="gain"[^>]*>', seen)[0]


def test_text_of_records_is_escaped(tmp_path):
    page = write_course(own_records(EVIL), tmp_path / "site").with_name("cpu-ikj.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "a &lt;script&gt;alert(1)&lt;/script&gt; | *CPU* `x` &amp; [y](z)" in page


@needs_browser
@pytest.mark.parametrize("width", [390, pytest.param(1200, marks=pytest.mark.exhaustive),
                                   pytest.param(2000, marks=pytest.mark.exhaustive)])  # fmt: skip
@pytest.mark.parametrize("dark", [True, pytest.param(False, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize("name", ["index", "cpu-register", "gpu-tuned", "play-cpu-pack-ab", "play-gpu-tuned"])
def test_pages_fit_and_can_be_read(site, name, width, dark):
    assert faults(site / f"{name}.html", width, dark) == []


@needs_browser
def test_what_is_wrong_with_a_page_is_found(tmp_path):
    wide, faint = "<p style='width: 900px'>wide</p>", "<p style='color: #999; background: white'>faint</p>"
    (tmp_path / "bad.html").write_text(f"<!doctype html><body>{wide}{faint}", encoding="utf-8")
    found = " ".join(faults(tmp_path / "bad.html", 390, dark=False))
    assert "scrolls sideways" in found
    assert 'P "wide" leaves the window' in found
    assert 'P "faint" has a contrast of 2.85' in found


def test_the_records_that_ship_are_those_of_docs():
    assert shipped.FILE.read_bytes() == shipped.packed(DOCS)


# The command


@pytest.fixture
def command(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(config, "cache_dir", tmp_path / "cache")
    return runner(capsys)


@pytest.mark.parametrize("display", ["", ":0"])
def test_the_last_report_is_shown_and_a_browser_opens_where_there_is_a_display(command, monkeypatch, display):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("DISPLAY", display)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    monkeypatch.setattr(machine, "cpu_name", lambda: made.DEVICE)
    last.keep([record | {"environment": record["environment"] | {"cpu": made.DEVICE}} for record in own_records()])
    done = command("course")
    page = config.cache_dir / "course" / "index.html"
    assert (done.status, done.out) == (0, f"{page}\n")
    assert opened == ([page.as_uri()] if display else [])
    assert "your machine" in page.read_text(encoding="utf-8")


def test_records_of_another_processor_are_not_ones_own(command):
    last.keep(own_records())
    assert last.kept() == []


def test_what_is_missing_is_said_before_anything_is_measured(monkeypatch):
    monkeypatch.setattr("gemmlab.course.find_spec", lambda name: None if name == "markdown_it" else object())
    with pytest.raises(ReportUnavailable, match=r"^the course needs markdown-it-py: pip install 'gemmlab\[report\]'$"):
        require()
