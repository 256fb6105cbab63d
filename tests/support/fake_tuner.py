"""A rung whose parameter `mode` makes it misbehave, and the real process that builds and tries it.

It runs on any OpenCL device: `python -c "import fake_tuner; fake_tuner.main()"` is a process of the tuner.
"""

from __future__ import annotations

import math
import time

import gemmlab
from gemmlab import _registry
from gemmlab.tune.devices import child

NAME = "opencl-misbehaving"
GOOD, GOOD_TOO, NO_KERNEL, WRONG, ENDLESS, CRASH, SLOW_BUILD, WRONG_WHEN_LARGE = MODES = range(1, 9)
TEXT = f"""
#if MODE == {NO_KERNEL}
#error "this mode has no kernel"
#endif
__kernel GROUP void gemm(OPERANDS)
{{
    THIS_PRODUCT;
    const int i = get_global_id(1), j = get_global_id(0);
    if (i >= m || j >= n)
        return;
    real sum = 0;
    for (int p = 0; p < k; p++)
        sum += A[i * lda + p] * B[p * ldb + j];
#if MODE == {WRONG}
    sum += i == 1 && j == 2;
#elif MODE == {WRONG_WHEN_LARGE}
    sum += m == 96 && i == 95 && j == 63;
#elif MODE == {ENDLESS}
    volatile int going = i == 0 && j == 0;
    while (going) {{ }}
#elif MODE == {CRASH}
    *(volatile __global int *)(long)8 = 1;
#endif
    C[i * ldc + j] = sum;
}}
"""


def backend(*modes: int):
    """The rung with these values of its parameter."""
    return gemmlab.opencl_rung(
        NAME, TEXT,
        params=[gemmlab.Param("mode", GOOD, modes or tuple(MODES), "how it misbehaves", "a mode", MODES.__contains__),
                gemmlab.Param("width", 16, (16,), "work-items of a group")],
        group=lambda params: (params["width"], 1), block=lambda params: (params["width"], 1),
    )  # fmt: skip


class SlowBuilds(child.Child):
    """Its compiler hangs for one mode."""

    def build(self, dtype, parameters):
        if parameters["mode"] == SLOW_BUILD:
            time.sleep(600)
        return super().build(dtype, parameters)


def main() -> None:
    child.Child = SlowBuilds
    child.SLOW = math.inf  # so that what a test finds does not depend on speed
    with _registry.registered(backend()):
        child.main()
