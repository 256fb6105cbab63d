"""gemmlab tune: the fastest block sizes, backends, or parameters of a rung on a device."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from gemmlab.cli.progress import progress


def run_tune(arguments: Namespace) -> int:
    """gemmlab tune"""
    from gemmlab import tune

    if arguments.replay:
        _only(arguments, "--replay", ("minutes", "log"))
        _print(tune.replay(arguments.replay), arguments.json, stored=False)
        _draw(arguments.replay)
        return 0
    if arguments.backend == "auto":
        _only(arguments, "auto", ("minutes", "log"))
        with progress() as show:
            rounds, edges = arguments.rounds or tune.ROUNDS, _edges(arguments)
            found = tune.tune("auto", arguments.dtype or (), rounds=rounds, edges=edges, progress=show)
        _print(found, arguments.json)
        return 0
    return _search(arguments)


def _search(arguments: Namespace) -> int:
    """Search with a log; interrupted, say what is the fastest so far, and raise KeyboardInterrupt again."""
    from gemmlab import tune

    on_device = tune.is_tunable_rung(arguments.backend)
    if on_device:
        _only(arguments, arguments.backend, ("rounds",))
    search = tune.search_for(
        arguments.backend, arguments.dtype or (), rounds=arguments.rounds or tune.ROUNDS,
        edges=() if on_device else _edges(arguments), shapes=_shapes(arguments) if on_device else (),
        minutes=arguments.minutes or tune.MINUTES, log=arguments.log,
    )  # fmt: skip
    try:
        with progress() as show:
            search.run(show)
    finally:
        _print(search.found, arguments.json)
        if search.log_path is not None:
            print(f"log: {search.log_path}", file=sys.stderr)
            _draw(search.log_path)
    return 0


def _edges(arguments: Namespace) -> list[int]:
    edges = [m for batch, m, n, k in arguments.sizes if batch == 1 and m == n == k]
    if len(edges) < len(arguments.sizes):
        raise ValueError(f"{arguments.backend} is tuned on squares: give --sizes such as 384,768")
    return edges


def _shapes(arguments: Namespace) -> list[tuple[int, int, int]]:
    if any(batch != 1 for batch, *_ in arguments.sizes):
        raise ValueError(f"{arguments.backend} is tuned on single products: give --sizes such as 4096 or 512x64x2048")
    return [(m, n, k) for _, m, n, k in arguments.sizes]


def _only(arguments: Namespace, of: str, others: Sequence[str]) -> None:
    """ValueError if an option was given that has no meaning here."""
    if wrong := next((name for name in others if getattr(arguments, name) is not None), None):
        raise ValueError(f"--{wrong} has no meaning with {of}: leave it out")


def _print(found: Sequence[Any], as_json: bool, stored: bool = True) -> None:
    """Print what was found, and where it is stored unless noise disturbed all of it."""
    from gemmlab import _profile, tune
    from gemmlab._words import escaped

    if as_json:
        print(json.dumps([asdict(one) for one in found], indent=1))
        return
    for one in found:
        print(one)
    if stored and not all(isinstance(one, tune.Disturbed) for one in found):
        print(f"stored in {escaped(str(_profile.path()))}")


def _draw(log: Path) -> None:
    """Draw the search beside its log; a line on standard error says why not."""
    from gemmlab._errors import GemmlabError
    from gemmlab.report import draw_search

    try:
        for path in draw_search(log):
            print(f"figure: {path}", file=sys.stderr)
    except (GemmlabError, OSError) as error:
        print(f"no figure: {error}", file=sys.stderr)
