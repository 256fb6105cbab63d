"""Search what is fastest on this machine, and store it in its profile, which later products use.

    blocks.py     cpu-packed: block sizes, and what a team of threads costs
    auto.py       auto: from which size on it takes another backend
    evidence.py   what measurements must show before they are kept
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gemmlab import _front
from gemmlab._api import get_backend
from gemmlab._errors import UnsupportedProblem
from gemmlab.tune import auto, blocks
from gemmlab.tune.auto import Taken
from gemmlab.tune.blocks import Tuned
from gemmlab.tune.evidence import Disturbed

__all__ = ["DTYPES", "TUNED", "Disturbed", "Taken", "Tuned", "tune"]

DTYPES = ("float32", "float64")
TUNED = ("cpu-packed", "auto")
Progress = Callable[[int, int, str], None]


def tune(
    backend: str, dtypes: Sequence[str] = DTYPES, *, rounds: int = 7, edges: Sequence[int] = (),
    progress: Progress | None = None,
) -> Sequence[Tuned | Taken | Disturbed]:  # fmt: skip
    """Search what is fastest on this machine and store it in its profile.

    Parameters
    ----------
    backend : {"cpu-packed", "auto"}
        "cpu-packed": its block sizes, and from which size on a product runs on several threads. "auto": for which
        products another backend is faster.
    dtypes : sequence of str
        They are tuned one by one.
    rounds : int
        How often every choice runs.
    edges : sequence of int
        Edges of the squares that are multiplied; by default 384 to 1536 for block sizes, 256 to 4096 for "auto".

    Returns
    -------
    list of Tuned, Taken or Disturbed
        The result for each dtype; `print` shows it in one line. `Disturbed` is a dtype for which nothing was kept,
        since its measurements are marked as noisy, as by `gemmlab bench`, and the difference is no larger than that.

    Raises
    ------
    UnsupportedProblem
        For a backend that has nothing to tune.
    OSError
        If the profile cannot be written.
    """
    name = backend if backend == "auto" else get_backend(backend).name
    if name not in TUNED:
        raise UnsupportedProblem(f"{name} does not follow the profile: gemmlab tune takes {' or '.join(TUNED)}")
    ours = get_backend(auto.OURS)
    found: Sequence[Tuned | Taken | Disturbed]
    if name == "auto":
        found = auto.tune_auto(dtypes, rounds, edges or auto.EDGES, progress)
    else:
        found = blocks.tune_blocks(dtypes, rounds, edges or blocks.EDGES, progress)
    ours.forget()  # type: ignore[attr-defined]
    _front.settings_changed()  # the fast path has the old parameters
    return found
