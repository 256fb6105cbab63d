"""Which backends a command uses: those that `--backends` names, or all that can run here."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from textwrap import fill

from gemmlab._errors import BackendUnavailable
from gemmlab._name import BackendName

WIDTH = 80


def named(names: Sequence[str] | None) -> list[str]:
    """Names and families turned into names; without any, all that can run here.

    An unknown or unavailable name raises, and so does a machine without any backend.
    """
    from gemmlab import _registry

    found = [_registry.get(name).name for name in names or ()] or _registry.available_names()
    if not found:
        raise BackendUnavailable("no backend can run: all are blocked by GEMMLAB_BLOCK or gemmlab.config.block")
    return found


def to_measure(names: Sequence[str] | None) -> list[str]:
    """As `named`; without names, CPUs behind a GPU runtime and emulated products are left out: few ask for them."""
    from gemmlab import _registry

    if names:
        return named(names)
    left_out = _left_out()
    return [name for name in named(None) if name not in left_out and _registry.info(name).kind != "emulated"]


def ladder_on_cpu() -> list[str]:
    """The GPU rungs of one runtime on a CPU, where there is no GPU to show them on: the ladder's last one first.

    It is what a user of the device would take, so it is measured whatever becomes of the others.
    """
    from gemmlab import _registry

    on_cpu = _left_out()
    on_gpu = [name for name in _registry.available_names() if BackendName.of(name).runtime and name not in on_cpu]
    rungs = [name for name in on_cpu if _registry.info(name).kind == "rung"]
    runtimes = [BackendName.of(name).runtime for name in rungs]
    ladder = [name for name, runtime in zip(rungs, runtimes, strict=True) if runtime == runtimes[0]]
    return [] if on_gpu else [*ladder[-1:], *ladder[:-1]]


def measurable(names: Sequence[str], dtypes: Iterable[str], cold: bool = False) -> list[str]:
    """Backends that multiply one of these dtypes, after a line on each of the others; ValueError if there is none."""
    asked = list(dict.fromkeys(dtypes))
    reasons = {name: [why_not(name, dtype, cold) for dtype in asked] for name in names}
    for name, why in reasons.items():
        if all(why):
            print(wrapped(f"{name} left out: {why[0]}"), file=sys.stderr)
    found = [name for name, why in reasons.items() if not all(why)]
    if not found:
        raise ValueError(f"no backend is left that multiplies {', '.join(asked)}{' from cold caches' * cold}")
    return found


def why_not(name: str, dtype: str, cold: bool = False) -> str:
    """Why a backend does not multiply a dtype, or not from cold caches; "" where it does."""
    import numpy as np

    from gemmlab import _registry
    from gemmlab._problem import Problem
    from gemmlab.verify.dtypes import dtype_of

    if cold and BackendName.of(name).on_runtime:
        return "--cold empties the caches of CPUs, not those of a device"
    ones = np.ones((2, 2), dtype_of(dtype))
    reason = _registry.get(name).supports(Problem.from_call(ones, ones))
    return "" if reason is True else str(reason)


def say_left_out(names: Sequence[str] | None, ladder: Sequence[str] = ()) -> None:
    """Name the runtimes that `to_measure` has left out, but for the `ladder`."""
    if not names and (left_out := [name for name in _left_out() if name not in ladder]):
        runtimes = ", ".join(dict.fromkeys(BackendName.of(name).runtime for name in left_out))
        print(wrapped(f"not measured: {runtimes} on CPU devices; name them in --backends"), file=sys.stderr)


def wrapped(text: str) -> str:
    """Text in 80 columns; a command to copy is not broken."""
    return fill(text, WIDTH, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)


def _left_out() -> list[str]:
    from gemmlab import _registry

    return [name for name in _registry.available_names() if _registry.on_cpu_device(name)]
