"""The text of the project: links lead somewhere, blocks of Python run, lines of shell parse, the course builds."""

from __future__ import annotations

import json
import os
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
from gemmlab._name import BackendName
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
    from building import links, reference

    from gemmlab.course import contradictions, gains, heads, pages, rungs

    modules = (contradictions, gains, heads, links, pages, reference, rungs)
    return {module.__name__.rpartition(".")[2]: module for module in modules} | {"measured": gains.Measured()}


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


@pytest.fixture
def environment():
    """The environment is as before afterwards: a Dask cluster limits libraries' threads in it."""
    before = os.environ.copy()
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.mark.parametrize("text", blocks("python"))
def test_every_block_of_python_runs(text, environment):
    rng = np.random.default_rng(0)
    names = {"a": rng.random((5, 4)), "b": rng.random((4, 3))}
    try:
        exec(compile(text, "a block of Python", "exec"), names)
    except BackendUnavailable as error:
        pytest.skip(str(error))
    except ModuleNotFoundError as error:
        if error.name not in ("dask", "distributed", "zarr"):
            raise
        pytest.skip(f"needs {error.name}")


@pytest.mark.parametrize("text", blocks("toml"))
def test_every_block_of_toml_is_toml(text):
    assert tomllib.loads(text)


def shell_lines():
    """Lines of blocks that call `gemmlab`, and the course's questions, with where they stand."""
    settings = tomllib.loads((ROOT / "gemmlab" / "course" / "course.toml").read_text(encoding="utf-8"))
    found = [("course.toml", one["run"]) for questions in settings["questions"].values() for one in questions]
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        fenced = "\n".join(re.findall(r"^```bash\n(.*?)^```", text, re.DOTALL | re.MULTILINE)).splitlines()
        indented = re.findall(r"^ {4}(.*)$", text, re.MULTILINE)
        for line in map(str.strip, (*fenced, *indented)):
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
            assert name.startswith("example-") or BackendName.of(name).plain in _registry.BUILT_IN


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
        titles = re.findall(r"^## (.*)$", course["pages"].page(rung, course["measured"]), re.MULTILINE)
        assert titles[:2] == ["The loop nest", "What it costs in traffic, and why"]
        ideas = ["Its ideas, one at a time"] if course["pages"].head_of(rung).ideas else []
        assert titles[2 : 2 + len(ideas)] == ideas
        kinds = [title.split()[0] for title in titles[2 + len(ideas) :]]
        changed = ["What"] if rung.before else []
        assert kinds == ["What" if rung.before else "How", "Its", "The", "The", *changed, "Its", "Questions"]


def test_the_head_of_every_rung_says_what_the_course_shows(course):
    for rung in course["rungs"].all_rungs():
        head = course["pages"].head_of(rung)
        assert head.idea
        assert head.loops
        assert head.traffic
        assert head.source or rung.source


def test_every_idea_of_a_rung_with_several_is_explained(course):
    rungs = {rung.page: rung for rung in course["rungs"].all_rungs()}
    ideas = {page: course["pages"].head_of(rung).ideas for page, rung in rungs.items()}
    told = course["rungs"].settings()["ideas"]
    assert {page: {"introduction", *names, "end"} for page, names in ideas.items() if names} == {
        page: set(texts) for page, texts in told.items()
    }
    assert len(ideas["gpu-tuned"]) == 8
    page = course["pages"].page(rungs["gpu-tuned"], course["measured"])
    assert re.findall(r"^### (\d)\. (.*)$", page, re.MULTILINE) == [
        (str(count), f"{name[0].upper()}{name[1:]}") for count, name in enumerate(ideas["gpu-tuned"], 1)
    ]


def test_a_rung_for_contrast_has_no_next_rung(course):
    gpu = {rung.title: rung for rung in course["rungs"].ladders()["GPU"]}
    assert gpu["register-global"].before is gpu["tuned"].before is gpu["register"]
    assert gpu["register-global"] not in gpu["naive"].onwards
    assert gpu["naive"].onwards[0] is gpu["tuned"]


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
                    for one in value.split(","):
                        assert params[name].constraint(int(one) if one.isdigit() else one)


def all_runs(course):
    return [(rung, run) for rung in course["rungs"].all_rungs() for run in course["measured"].runs(rung)]


def test_a_run_has_one_number_of_threads_and_compares_only_what_has_as_many(course):
    checked = 0
    for rung, run in all_runs(course):
        assert len({step.threads for step in run.steps}) == 1
        for step in run.steps:
            assert step.after["backend"] in rung.backends.values()
            assert step.before is None or step.before["threads"] == step.threads
            alike = [r["gflop_per_s"] for r in run.ceilings if r["threads"] == step.threads and r["ceiling"] == "fma"]
            assert step.peak is None or step.peak in alike
            checked += step.before is not None
    assert checked > 50


def test_every_caption_has_the_threads_of_its_records(course):
    for rung, run in all_runs(course):
        table = course["pages"]._gains_table(rung, run)
        caption, titles = table.splitlines()[0], table.splitlines()[2]
        said = re.findall(r"(\d+) threads?\b", caption)
        assert said == ([str(run.steps[0].threads)] if run.steps[0].threads else [])
        peaks = re.findall(r"of the peak of (\d+) thread", titles)
        assert peaks in ([], said)


def test_a_speed_on_another_number_of_threads_says_so(course):
    (ikj,) = (rung for rung in course["rungs"].all_rungs() if rung.page == "cpu-ikj")
    (run,) = (run for run in course["measured"].runs(ikj) if run.file == "measured/ladder16/sixteen-threads.jsonl")
    table = course["pages"]._gains_table(ikj, run)
    assert "| 1008 | 1.1 on 1 thread | **97.8** (84.3 to 102) | 1010 | 5.8\u00a0% |" in table
    assert "times cpu-naive" not in table


def test_no_two_tables_of_a_page_have_the_same_caption(course):
    for rung in course["rungs"].all_rungs():
        captions = [course["pages"]._gains_table(rung, run).splitlines()[0] for run in course["measured"].runs(rung)]
        assert len({caption.partition(" (`")[0] for caption in captions}) == len(captions)


def test_the_first_table_of_every_rung_has_the_ladders_first_and_last_rung(course):
    for ladder in course["rungs"].ladders().values():
        for rung in ladder:
            run = course["measured"].runs(rung)[0]
            titles = course["pages"]._gains_table(rung, run).splitlines()[2]
            for end in (rung.first, run.last):
                assert end is None or f"| {end.title}, GFLOP/s |" in titles
        ends = [run.last.title for run in course["measured"].runs(ladder[0])]
        assert ends[0] in ("cpu-packed", "register", "tuned")
        assert {"cpu-packed", "tuned"} & set(ends)


def test_the_table_of_the_ladder_is_that_of_the_records(course):
    """One thread against one thread, and what more threads give as a factor of its own."""
    page = (DOCS / "ladder.md").read_text(encoding="utf-8")
    gains, formatting = course["gains"], course["pages"]
    for rung in course["rungs"].ladders()["CPU"]:
        runs = course["measured"].runs(rung)
        (step,) = (step for step in runs[0].steps if step.n == 1008)
        assert step.threads == 1
        cells = [f"{formatting.number(step.after['gflop_per_s'])} ({formatting.percent(step.share_of_peak)})"]
        cells.append(step.gain.partition(" (")[0] or "–")
        if more := gains.over_threads(step, runs):
            other, factor = more
            assert other.threads == 2
            share = formatting.percent(other.share_of_peak)
            cells += [f"{formatting.number(other.after['gflop_per_s'])} ({share})", formatting.number(factor)]
        else:
            cells += ["–", "–"]
        (row,) = (line for line in page.splitlines() if line.startswith(f"| [`{rung.title}`]"))
        assert row.split(" | ")[3:] == [*cells[:-1], f"{cells[-1]} |"]


def test_the_tables_of_communication_are_those_of_the_script():
    """The script itself ends with an error where a scheme moves less than the lower bound."""
    page = (DOCS / "scaling.md").read_text(encoding="utf-8")
    tables = 0
    for words in re.findall(r"`python (bench/scale/communication\.py [^`]*)`", page):
        script, *options = words.split()
        done = run_python(ROOT / script, *options)
        assert done.returncode == 0, done.stderr
        tables += done.stdout in page
    assert tables == 2


def test_every_question_says_what_to_expect(course):
    for rung in course["rungs"].all_rungs():
        page = course["pages"].page(rung, course["measured"])
        asked = course["rungs"].questions(rung)
        assert all(question["answer"].strip() for question in asked)
        assert page.count("<details><summary>What to expect</summary>") == len(asked)
        assert page.count("<details>") == page.count("</details>")


def test_rows_that_contradict_the_text_say_why(course):
    said = "\n".join(course["pages"].page(rung, course["measured"]) for rung in course["rungs"].all_rungs())
    assert "* N = 3024 and 4032: above the measured peak (1400 GFLOP/s)." in said
    assert re.search(r"\* N = 1008, 2016 and 3024: the gain is far below .* L3 \(300 MiB\) holds all of B", said)
    assert "little or no gain, although the tiles are in local memory. On this device L1 is as fast" in said


def step_of(course, rate, n=100, *, before=50.0, peak=None, cache_bytes=None, after_moved=None, before_moved=None):
    """A step with what the rules look at."""
    caches = {"environment": {"cache_bytes": cache_bytes or {}}}
    old = record("b", 1.0, n) | caches | {"gflop_per_s": before, "p80_s": 1.1} | (before_moved or {})
    new = record("a", before / rate, n) | caches | {"gflop_per_s": rate} | (after_moved or {})
    return course["gains"].Step(new, old, peak)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"rate": 101.0, "peak": 100.0}, "above the measured peak"),
        ({"rate": 99.0, "peak": 100.0}, None),
        ({"rate": 20.0, "cache_bytes": {"L2": 40_000}}, "slower than b. L2"),
        ({"rate": 20.0, "cache_bytes": {"L2": 39_999}}, None),
        ({"rate": 60.0, "cache_bytes": {"L2": 40_000}}, None),
        ({"rate": 60.0, "cache_bytes": {"L2": 9, "L3": 40_000}, "before_moved": {"bytes_model_l3": 21e9},
          "after_moved": {"bytes_model_l3": 3e9}}, "L3 (39.1 KiB) holds all of B"),
        ({"rate": 60.0, "cache_bytes": {"L2": 9, "L3": 39_999}, "before_moved": {"bytes_model_l3": 21e9},
          "after_moved": {"bytes_model_l3": 3e9}}, None),
        ({"rate": 60.0, "cache_bytes": {"L2": 9, "L3": 40_000}, "before_moved": {"bytes_model_l3": 19e9},
          "after_moved": {"bytes_model_l3": 3e9}}, None),
        ({"rate": 2000.0, "cache_bytes": {"L2": 9, "L3": 40_000}, "before_moved": {"bytes_model_l3": 21e9},
          "after_moved": {"bytes_model_l3": 3e9}}, None),
    ],
)  # fmt: skip
def test_a_rule_finds_its_rows_and_no_others(course, options, reason):
    memory = {"ceiling": "bandwidth", "level": "DRAM", "operation": "load", "threads": 1, "gb_per_s": 20.0}
    run = course["gains"].Run("here", "a file", (step_of(course, **options),), (memory,))
    found = course["contradictions"].contradictions(run)
    assert len(found) == (reason is not None)
    assert reason is None or found[0].startswith("N = 100: ")
    assert reason is None or reason in found[0]


def record(backend, seconds, n=100):
    """A product as `gains` needs it."""
    problem = {"m": n, "n": n, "k": n, "dtype": "float32"}
    return {"kind": "gemm", "backend": backend, "status": "ok", "problem": problem, "gflop": 2e-9 * n**3, "threads": 1,
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
