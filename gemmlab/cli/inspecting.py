"""The commands that look at what is here, and measure no speed: backends, verify, cache, info."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict
from textwrap import fill
from typing import TYPE_CHECKING

from gemmlab._words import escaped
from gemmlab.cli.progress import progress
from gemmlab.cli.selection import WIDTH, named, why_not, wrapped

if TYPE_CHECKING:
    from gemmlab._gpu.cache import Summary


def run_backends(arguments: Namespace) -> int:
    """gemmlab backends"""
    import gemmlab
    from gemmlab.measure.table import Column, text_table

    rows = []
    for info in gemmlab.backends().values():
        works = _tiny_product(info.name) if info.available else ""
        rows.append({**asdict(info), "params": sorted(info.params), "works": works})
    if arguments.json:
        print(json.dumps(rows, indent=1))
    else:
        columns = [
            Column("backend", lambda row: row["name"], number=False),
            Column("kind", lambda row: row["kind"], number=False),
            Column("works", lambda row: row["works"] or "no", number=False),
            Column("what", lambda row: row["summary"], number=False),
        ]
        print(text_table(rows, columns))
        missing: dict[tuple[str, str], list[str]] = {}
        for row in rows:
            if not row["available"]:
                missing.setdefault((row["reason"], row["fix"]), []).append(row["name"])
        for (reason, fix), names in missing.items():
            print(wrapped(f"{', '.join(names)}: {reason}"))
            if fix:
                print(wrapped(f"    fix: {fix}"))
    return 1 if any(row["works"] not in ("", "yes") for row in rows) else 0


def _tiny_product(name: str) -> str:
    import numpy as np

    import gemmlab

    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    try:
        right = np.array_equal(gemmlab.matmul(a, a.T, backend=name), [[5, 14], [14, 50]])
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "yes" if right else "wrong product"


def run_verify(arguments: Namespace) -> int:
    """gemmlab verify"""
    from gemmlab.verify.audit import audit
    from gemmlab.verify.child import Auditor

    audits = []
    names = named(arguments.backend)
    if arguments.dtype:
        names = _with_any(names, arguments.dtype)
    with progress() as show, ExitStack() as stack:
        auditors = [stack.enter_context(Auditor(names[0]))]
        for done, name in enumerate(names):
            for following in names[done + 1 : done + 2]:  # its process starts while this one is audited
                auditors.append(stack.enter_context(Auditor(following)))

            def step(checks: int, of: int, what: str, done: int = done, name: str = name) -> None:
                show(done * of + checks, len(names) * of, f"{name}: {what}")

            audits.append(audit(auditors[done], arguments.dtype, arguments.seed, arguments.thorough, step))
        show(1, 1, "")
    if arguments.json:
        print(json.dumps([one.to_dict() for one in audits], indent=1))
    else:
        shown = (one for one in audits if arguments.details or not one.passed)
        print("\n\n".join(["\n".join(wrapped(one.line) for one in audits), *map(str, shown)]))
    return 0 if all(one.passed for one in audits) else 1


def _with_any(names: Sequence[str], dtypes: Sequence[str]) -> list[str]:
    """The backends that multiply one of the dtypes, after a line that names the others; ValueError if there is none."""
    able = [name for name in names if not all(why_not(name, dtype) for dtype in dtypes)]
    asked = " or ".join(dtypes)
    if not able:
        raise ValueError(f"no backend is left that multiplies {asked}")
    if left_out := [name for name in names if name not in able]:
        print(wrapped(f"left out, as they do not multiply {asked}: {', '.join(left_out)}"), file=sys.stderr)
    return able


def run_cache(arguments: Namespace) -> int:
    """gemmlab cache"""
    from gemmlab._gpu.cache import clear, summary

    programs = clear() if arguments.action == "clear" else summary()
    if arguments.json:
        print(json.dumps(_as_json(programs), indent=1))
    elif arguments.action == "clear":
        print(f"removed {_counted(programs)} from {escaped(str(programs.folder))}")
    else:
        print(f"{_counted(programs)} in {escaped(str(programs.folder))}")
    return 0


def run_info(arguments: Namespace) -> int:
    """gemmlab info"""
    from gemmlab._config import config
    from gemmlab._gpu import devices
    from gemmlab._gpu.cache import summary
    from gemmlab.measure.environment import environment, versions

    facts = environment() | {"threads": config.threads, "cache_dir": str(config.cache_dir)} | versions()
    programs = summary()
    found = devices()
    if arguments.json:
        plain = {name: own if isinstance(own, str) else list(map(asdict, own)) for name, own in found.items()}
        print(json.dumps({**facts, "program_cache": _as_json(programs), "devices": plain}, indent=1))
        return 0
    facts["openmp"] = facts["openmp"] or "none: this build runs on one thread"
    for name, value in facts.items():
        for line in value if isinstance(value, list) and value and isinstance(value[0], dict) else [value]:
            print(f"{name:<20}{_in_words(line)}")
    print(f"{'program cache':<20}{_counted(programs)} in {escaped(str(programs.folder))};")
    print(f"{'':<20}opencl and cuda (sycl programs cannot be stored)")
    for runtime, own in found.items():
        rows = [own] if isinstance(own, str) else [f"{d.index}: {d.label} ({d.kind}), driver {d.driver}" for d in own]
        for row in rows:
            print(fill(f"{runtime + ' device':<20}{row}", WIDTH, subsequent_indent=" " * 20, break_on_hyphens=False))
    return 0


def _as_json(programs: Summary) -> dict[str, object]:
    """A summary of the program cache as JSON."""
    return asdict(programs) | {"folder": str(programs.folder), "runtimes": ["opencl", "cuda"]}


def _counted(programs: Summary) -> str:
    """A summary of the program cache in words."""
    return f"{programs.programs} program{'s' * (programs.programs != 1)}, {programs.bytes / 2**20:.1f} MiB"


def _in_words(value: object) -> str:
    """A value of `gemmlab info` in words."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {_in_words(part)}" for key, part in value.items() if part is not None)
    if isinstance(value, list):
        return " ".join(map(str, value)) or "-"
    return "-" if value is None else str(value)
