"""Search what is fastest on this machine, and store it in its profile, which later products use.

    blocks.py     cpu-packed: block sizes, and what a team of threads costs
    auto.py       auto: from which size on it takes another backend
    devices/      the rungs of the GPU ladder: their parameters, on one device
    search/       what the searches of block sizes and of devices share: the next configuration, the fastest, the log
    evidence.py   what measurements must show before they are kept
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from gemmlab import _front
from gemmlab._api import get_backend
from gemmlab._errors import UnsupportedProblem
from gemmlab.tune import auto, blocks
from gemmlab.tune.auto import Taken
from gemmlab.tune.blocks import BlocksSearch, Tuned
from gemmlab.tune.devices import MINUTES, DeviceSearch
from gemmlab.tune.evidence import Disturbed
from gemmlab.tune.search import Fastest, replay

__all__ = [
    "DTYPES", "MINUTES", "ROUNDS", "TUNED", "BlocksSearch", "DeviceSearch", "Disturbed", "Fastest", "Taken", "Tuned",
    "is_tunable_rung", "replay", "search_for", "tune",
]  # fmt: skip

DTYPES = ("float32", "float64")
TUNED = ("cpu-packed", "auto")
ROUNDS = 7
Progress = Callable[[int, int, str], None]


def tune(
    backend: str, dtypes: Sequence[str] = (), *, rounds: int = ROUNDS, edges: Sequence[int] = (),
    shapes: Sequence[tuple[int, int, int]] = (), minutes: float = MINUTES, log: Path | None = None,
    progress: Progress | None = None,
) -> Sequence[Tuned | Taken | Disturbed | Fastest]:  # fmt: skip
    """Search what is fastest on this machine and store it in its profile.

    Parameters
    ----------
    backend : str
        "cpu-packed": its block sizes, and from which size on a product runs on several threads. "auto": for which
        products another backend is faster. A rung of the GPU ladder, such as "opencl-register" or "cuda-local4:1": its
        parameters on that device.
    dtypes : sequence of str
        They are tuned one by one. By default float32 and float64, where the device has it.
    rounds : int
        How often every choice of "auto" runs, and for block sizes the fastest and the defaults at the end.
    edges : sequence of int
        Edges of the squares that are multiplied; by default 384 to 1536 for block sizes, 256 to 4096 for "auto".
    shapes : sequence of (int, int, int)
        For a device: m, n and k; by default the squares of 1024 and 4096 on a GPU, of 256 and 1024 on a CPU.
    minutes : float
        How long to search; not for "auto". By default 5.
    log : Path, optional
        The file of what was tried, from which an earlier search goes on; not for "auto". By default one in
        `config.cache_dir`.

    Returns
    -------
    list of Tuned, Taken, Fastest or Disturbed
        The result for each dtype, on a device for each shape too; `print` shows it in one line. `Disturbed` is a dtype
        for which nothing was kept, since its measurements are marked as noisy, as by `gemmlab bench`, and the
        difference is no larger than that.

    Raises
    ------
    UnsupportedProblem
        For a backend that has nothing to tune.
    OSError
        If the profile or the log cannot be written.
    """
    if backend != "auto":
        search = search_for(backend, dtypes, rounds=rounds, edges=edges, shapes=shapes, minutes=minutes, log=log)
        return search.run(progress)
    found = auto.tune_auto(dtypes or DTYPES, rounds, edges or auto.EDGES, progress)
    get_backend(auto.OURS).forget()  # type: ignore[attr-defined]
    _front.settings_changed()  # the compiled way has the old parameters
    return found


def search_for(
    backend: str, dtypes: Sequence[str] = (), *, rounds: int = ROUNDS, edges: Sequence[int] = (),
    shapes: Sequence[tuple[int, int, int]] = (), minutes: float = MINUTES, log: Path | None = None,
) -> DeviceSearch | BlocksSearch:  # fmt: skip
    """The search of `tune` for cpu-packed or a rung of the GPU ladder; the parameters are those of `tune`."""
    if is_tunable_rung(backend):
        return DeviceSearch(backend, dtypes, shapes, minutes, log)
    if (name := get_backend(backend).name) not in TUNED:
        known = f"{', '.join(TUNED)} or a rung of the GPU ladder, such as opencl-register"
        raise UnsupportedProblem(f"{name} does not follow the profile: gemmlab tune takes {known}")
    return BlocksSearch(dtypes or DTYPES, rounds, edges or blocks.EDGES, minutes, log)


def is_tunable_rung(backend: str) -> bool:
    """Whether a name is that of a rung of the GPU ladder, which is tuned on its device."""
    from gemmlab._gpu.backend import RungBackend

    return backend != "auto" and isinstance(get_backend(backend), RungBackend)
