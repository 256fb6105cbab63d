"""threadpoolctl's view of our threads: `threadpool_limits(2)`, or with `user_api="blas"`, holds for us too.

threadpoolctl finds a library by its file, ours by the compiled driver's. The controller is registered once
threadpoolctl is there: a program that never imports it does not pay for it.
"""

from __future__ import annotations

import sys
from functools import cache

from gemmlab._config import config
from gemmlab._cpu.threads import _threads
from gemmlab._version import __version__


def follow_threadpoolctl() -> None:
    """Register our controller, if threadpoolctl has been imported."""
    if "threadpoolctl" in sys.modules:
        _register()


@cache
def _register() -> None:
    from threadpoolctl import LibController, register

    class Gemmlab(LibController):  # type: ignore[misc]
        """The number of threads of a product that names none."""

        user_api, internal_api = "blas", "gemmlab"
        filename_prefixes = ("_threads",)
        check_symbols = ("gemmlab_threads",)

        def get_num_threads(self) -> int:
            return _threads.max_threads()

        def set_num_threads(self, num_threads: int) -> None:
            _threads.limit_blas_threads(0)
            if num_threads < _threads.max_threads():  # as many as without a limit: threadpoolctl restores what it found
                _threads.limit_blas_threads(num_threads)
            config.changed()  # what auto takes depends on the number of threads

        def get_version(self) -> str:
            return __version__

    register(Gemmlab)
