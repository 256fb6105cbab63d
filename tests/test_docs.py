"""The text of the project: links lead somewhere, blocks of Python run, lines of shell parse, the course builds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from helpers import run_python

import gemmlab
from gemmlab import BackendUnavailable, _registry
from gemmlab.cli import parser

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
MADE = ("_build", "reference", "rungs", "sources")
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md"))
    if not (page.is_relative_to(DOCS) and page.relative_to(DOCS).parts[0] in MADE)
)
LACKING = [name for name in ("sphinx", "furo", "myst_parser", "matplotlib") if not find_spec(name)]
needs_builder = pytest.mark.skipif(bool(LACKING), reason=f"the extra docs is not installed: no {', '.join(LACKING)}")
needs_bash = pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")


@pytest.fixture
def course(monkeypatch):
    """The modules that write the course's pages."""
    monkeypatch.syspath_prepend(str(DOCS))
    from course import gains, heads, links, pages, reference, rungs

    return {"gains": gains, "heads": heads, "links": links, "pages": pages, "reference": reference, "rungs": rungs}


def name_of(page):
    return str(page.relative_to(ROOT))


def without_blocks(text):
    return re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(page):
    """The anchors of a page's headings, as code hosts make them."""
    titles = re.findall(r"^#+ (.*)$", without_blocks(page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_leads_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", without_blocks(page.read_text(encoding="utf-8")))
    dead = []
    for link in links:
        if re.match(r"[a-z]+:", link):
            continue  # another site: not asked for
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            dead.append(link)
    assert not dead


def blocks(language):
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
            line = text[: block.start()].count("\n") + 2
            found.append(pytest.param(block[1], id=f"{name_of(page)}:{line}"))
    return found


@pytest.mark.parametrize("text", blocks("python"))
def test_every_block_of_python_runs(text):
    rng = np.random.default_rng(0)
    names = {"a": rng.random((5, 4)), "b": rng.random((4, 3))}
    try:
        exec(compile(text, "a block of Python", "exec"), names)
    except BackendUnavailable as error:
        pytest.skip(str(error))


@pytest.mark.parametrize("text", blocks("toml"))
def test_every_block_of_toml_is_toml(text):
    assert tomllib.loads(text)


def shell_lines():
    """Lines of blocks that call `gemmlab`, and the course's questions, with where they stand."""
    settings = tomllib.loads((DOCS / "course" / "course.toml").read_text(encoding="utf-8"))
    found = [("course.toml", one["run"]) for questions in settings["questions"].values() for one in questions]
    for page in PAGES:
        for line in map(str.strip, page.read_text(encoding="utf-8").splitlines()):
            if re.match(r"(GEMMLAB_\w+=\S+ |for .*; do )*gemmlab ", line):
                found.append((name_of(page), re.split(r"\s{2,}", line)[0]))  # a meaning may follow, apart
    return [pytest.param(line, id=f"{where}: {line[:60]}") for where, line in dict.fromkeys(found)]


def spans():
    """What sentences say of commands: `gemmlab bench --suite`."""
    found = []
    for page in PAGES:
        text = without_blocks(page.read_text(encoding="utf-8"))
        said = [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", text)]
        found += [(name_of(page), span) for span in said if re.match(r"(GEMMLAB_\w+=\S+ )*gemmlab ", span)]
    return [pytest.param(span, id=f"{where}: {span[:60]}") for where, span in dict.fromkeys(found)]


def calls(line):
    """The arguments of each call of `gemmlab` in a line, as bash makes them; no other program can run."""
    body = 'gemmlab() { "$python" -c "import json, sys; print(json.dumps(sys.argv[1:]))" "$@"; }\n'
    done = subprocess.run(
        [shutil.which("bash"), "--noprofile", "--norc", "-c", f"{body}{line}"],
        env={"python": sys.executable, "PATH": ""}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    return [json.loads(found) for found in done.stdout.splitlines()]


@needs_bash
@pytest.mark.parametrize("line", shell_lines())
def test_every_line_of_shell_parses(line):
    made = calls(line)
    assert made
    for arguments in made:
        parsed = parser().parse_args([word for word in arguments if word != "..."])  # for more of the same
        for name in getattr(parsed, "backends", None) or []:
            assert name.startswith("example-") or _registry.plain(name) in _registry.BUILT_IN


@pytest.mark.parametrize("span", spans())
def test_every_option_that_a_sentence_names_is_there(span):
    name, *words = span[span.index("gemmlab ") :].split()[1:]
    choices = next(action.choices for action in parser()._actions if isinstance(action.choices, dict))
    options = choices[name]._option_string_actions
    assert [word for word in words if word.startswith("-") and word not in options] == []


@needs_bash
def test_a_line_with_an_option_that_is_not_there_fails(capsys):
    (arguments,) = calls("gemmlab bench --sise 5")
    with pytest.raises(SystemExit):
        parser().parse_args(arguments)
    assert "--sise" in capsys.readouterr().err


def test_every_rung_has_its_page_in_order(course):
    for rung in course["rungs"].all_rungs():
        titles = re.findall(r"^## (.*)$", course["pages"].page(rung), re.MULTILINE)
        assert titles[:2] == ["The loop nest", "What it costs in traffic, and why"]
        kinds = [title.split()[0] for title in titles[2:]]
        changed = ["What"] if rung.before else []
        assert kinds == ["What" if rung.before else "How", "Its", "The", *changed, "Its", "Questions"]


def test_the_head_of_every_rung_says_what_the_course_shows(course):
    for rung in course["rungs"].all_rungs():
        head = course["heads"].read_head(rung.files[0])
        assert head.idea
        assert head.traffic
        assert any(course["heads"].read_head(file).loops for file in rung.files)
        assert head.source or rung.source


def test_every_rung_has_questions_with_parameters_that_it_takes(course):
    pages = {rung.page: rung for rung in course["rungs"].all_rungs()}
    asked = course["rungs"].settings()["questions"]
    assert set(asked) == set(pages)
    for page, questions in asked.items():
        params = {param.name: param for param in pages[page].params}
        for question in questions:
            for arguments in calls(question["run"]):
                for given in getattr(parser().parse_args(arguments), "param", []):
                    name, _, value = given.partition("=")
                    assert params[name].constraint(int(value) if value.isdigit() else value)


def record(backend, seconds, n=100):
    """A product as `gains` needs it."""
    problem = {"m": n, "n": n, "k": n}
    return {"kind": "gemm", "backend": backend, "status": "ok", "problem": problem, "gflop": 2e-9 * n**3,
            "median_s": seconds, "p20_s": 0.9 * seconds, "p80_s": 1.1 * seconds, "transfers_counted": None}  # fmt: skip


def test_a_gain_has_its_interval_and_overlapping_times_no_ratio(course):
    step = course["gains"].Step
    assert step(record("b", 1.0), record("a", 4.0), None).gain == "4 (3.27 to 4.89)"
    assert step(record("b", 1.0), record("a", 1.1), None).gain == "no difference seen"
    assert step(record("b", 1.0), None, None).gain == ""


def test_a_link_to_the_file_of_a_rung_leads_to_its_page(course):
    links = course["links"]
    said = "[x](../gemmlab/_cpu/rungs/ikj.pyx), [y](../LICENSE), [z](ladder.md#the-gpu-ladder), [w](https://example.org)"
    changed = links.for_the_site(said, DOCS / "index.md")
    assert changed == (
        "[x](rungs/cpu-ikj.md), [y](sources/LICENSE.md), [z](ladder.md#the-gpu-ladder), [w](https://example.org)"
    )


def test_the_reference_has_every_public_name_and_every_command(course):
    python, command_line = course["reference"].python(), course["reference"].command_line()
    assert [name for name in gemmlab.__all__ if name.strip("_") not in python] == []
    for command in ("report", "bench", "study", "cache"):
        assert f"## gemmlab {command}\n" in command_line
    assert "`--sizes SIZES`" in command_line


@needs_builder
def test_the_course_builds_without_a_warning(tmp_path):
    done = run_python("-m", "sphinx", "-q", "-W", "-n", "--keep-going", DOCS, tmp_path, timeout=300, path=[ROOT])
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ("index", "ladder", "rungs/cpu-packed", "rungs/gpu-local", "measured/README", "reference/python"):
        assert (tmp_path / f"{page}.html").is_file()
    home = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "http" not in "".join(re.findall(r"<(?:script|link|img)[^>]*>", home))
