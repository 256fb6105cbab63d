"""The time that a configuration is predicted to take, from the product that it was measured on.

A device computes a product in waves: each of its compute units takes one work-group, and the next wave begins when
these are done. A wave takes as long as one group's block of C, whose work grows with k. So the last wave costs as much
as a full one, and of two configurations the one with smaller blocks may be faster for a small product, though it is
slower for a large one.

The time of a wave is that of the measured product, divided by its waves; the prediction for that product is thus its
measured time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gemmlab._profile import Configuration

Size = tuple[int, int, int, int]  # m, n, k, batch


def predicted_s(
    one: Configuration, block: Callable[[Mapping[str, int]], tuple[int, int]], size: Size, compute_units: int
) -> float:
    """Seconds for a batch of m x n x k products on a device with this number of compute units.

    `block` gives the columns and rows of C that a work-group computes. A parameter `split_k` is the number of groups
    that share the k of one block.

    Examples
    --------
    >>> one = Configuration({"edge": 64}, (1024, 1024, 1024), 1000.0, "")
    >>> def square(parameters):
    ...     return parameters["edge"], parameters["edge"]
    >>> measured = predicted_s(one, square, (1024, 1024, 1024, 1), 100)
    >>> round(1e3 * measured, 3)  # milliseconds; 256 groups are three waves
    2.147
    >>> round(predicted_s(one, square, (64, 64, 1024, 1), 100) / measured, 3)  # one group is one wave
    0.333
    """
    m, n, k = one.shape
    measured_s = 2e-9 * m * n * k / one.gflop_per_s
    steps = _steps(one.parameters, block, (m, n, k, 1), compute_units)
    return measured_s * _steps(one.parameters, block, size, compute_units) / steps


def _steps(
    parameters: Mapping[str, int], block: Callable[[Mapping[str, int]], tuple[int, int]], size: Size, compute_units: int
) -> int:
    """Steps of k that a compute unit takes, in all waves."""
    m, n, k, batch = size
    columns, rows = block(parameters)
    split = parameters.get("split_k", 1)
    groups = -(-m // rows) * -(-n // columns) * split * batch
    return -(-groups // compute_units) * -(-k // split)
