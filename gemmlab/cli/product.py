"""The command product."""

from __future__ import annotations

import json
from argparse import Namespace
from dataclasses import asdict
from typing import TYPE_CHECKING

from gemmlab.cli.progress import progress
from gemmlab.cli.streams import say

if TYPE_CHECKING:
    from gemmlab.product import Result


def run_product(arguments: Namespace) -> int:
    """gemmlab product"""
    found = _computed(arguments)
    if arguments.json:
        print(json.dumps(_as_dict(found), indent=1))
    else:
        print(_text(arguments, found))
    return 0 if found.ok else 1


def _computed(arguments: Namespace) -> Result:
    from gemmlab.product import product, product_on_dask

    files = arguments.a, arguments.b, arguments.out
    options = {"backend": arguments.backend, "threads": arguments.threads}
    if arguments.dask is not None and arguments.memory is not None:
        raise ValueError("--memory bounds this process, not the workers of a cluster: leave it out with --dask")
    try:
        with progress() as show:
            if arguments.dask is not None:
                return product_on_dask(*files, arguments.dask, **options, progress=show)
            return product(*files, **options, memory=arguments.memory, progress=show)
    except KeyboardInterrupt:  # SIGTERM too
        kept = "begins it anew" if arguments.dask is not None else "goes on where this one was"
        say(f"{arguments.out} is not finished: the same command {kept}")
        raise


def _text(arguments: Namespace, found: Result) -> str:
    from gemmlab._words import escaped, number, size
    from gemmlab.measure.table import seconds as in_words

    lines = [
        f"{arguments.a} of {found.m} x {found.k} times {arguments.b} of {found.k} x {found.n}",
        *_plan(found),
        f"backend   {found.backend}",
    ]
    if found.share_found and found.plan is not None:
        whole = f"{found.tiles_found} of {len(found.plan.tiles)} tiles whole"
        lines.append(f"resumed   {found.share_found:.0%} of the work was there, {whole}")
    parts = ", ".join(f"{name} {in_words(part)}" for name, part in found.parts_s.items())
    lines.append(f"time      {in_words(found.seconds)}" + f": {parts}" * bool(parts))
    if found.gflop_per_s:
        lines.append(f"rate      {number(found.gflop_per_s)} GFLOP/s, without the check")
    lines.append(f"check     {_check(found)}")
    written = found.path.stat().st_size if found.path.is_file() else None
    lines.append(
        f"written   {found.path}: {found.m} x {found.n}, {found.dtype}"
        + (f", {size(written)}" if written is not None else "")
    )
    if not found.ok:
        lines.append(f"          delete {found.path.with_suffix('.gemmlab-journal')} to compute it again")
    return "\n".join(map(escaped, lines))  # a file's name may have an end of line


def _plan(found: Result) -> list[str]:
    from gemmlab._words import size

    plan = found.plan
    if plan is None:
        return ["plan      tasks on a Dask cluster"]
    tiles, blocks = len(plan.tiles), len(plan.depths)
    depth = f"k in {blocks} blocks of {plan.tk}" if blocks > 1 else "all of k at once"
    return [
        f"plan      {tiles} tile{'s' * (tiles != 1)} of {plan.tm} x {plan.tn}, {depth}",
        f"files     {size(plan.bytes_read)} to read, with {size(plan.bytes_memory)} of memory",
    ]


def _check(found: Result) -> str:
    error = f"error {found.error:.1e} of its bound, by {found.checked_by}"
    if found.ok:
        return error if found.error else f"passed, by {found.checked_by}"
    return f"FAILED: {error}"


def _as_dict(found: Result) -> dict[str, object]:
    from gemmlab.product.plan import Tiling

    plan = asdict(found.plan) if isinstance(found.plan, Tiling) else None
    return {
        **asdict(found), "path": str(found.path), "plan": plan, "ok": found.ok, "gflop_per_s": found.gflop_per_s,
        "tiles": None if found.plan is None else len(found.plan.tiles),
    }  # fmt: skip
