"""What happens to each kind of array, observed: the table of docs/arrays.md.

python tests/support/array_kinds.py     writes the rows of what is installed here, and leaves the others
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from exporter import Exporter

import gemmlab
from gemmlab._gpu.device_arrays import to_device

PAGE = Path(__file__).parents[2] / "docs" / "arrays.md"
HEAD = '| an array `x` of | `matmul(x, x)` | with `backend="cpu-packed"` | `asarray(a) @ x` | `asarray(x) @ a` |'
PLAIN = np.eye(3, dtype="float32")


def memory_mapped() -> Any:
    with tempfile.TemporaryFile() as file:
        held = np.memmap(file, "float32", "w+", shape=(3, 3))
    held[...] = PLAIN
    return held


def on_device(runtime: str) -> Any:
    return to_device(gemmlab.get_backend(f"{runtime}-private"), PLAIN)


KINDS: Mapping[str, Callable[[], Any]] = {
    "NumPy": lambda: PLAIN,
    "nested lists": PLAIN.tolist,
    "`numpy.memmap`": memory_mapped,
    "`gemmlab.asarray`": lambda: gemmlab.asarray(PLAIN),
    "`numpy.matrix`, as any other subclass": lambda: PLAIN.view(np.matrix),
    "`numpy.ma`": lambda: np.ma.masked_array(PLAIN, PLAIN > 0),
    "`scipy.sparse`": lambda: import_module("scipy.sparse").csr_array(PLAIN),
    "Dask": lambda: import_module("dask.array").from_array(PLAIN),
    "Zarr": lambda: import_module("zarr").array(PLAIN),
    "pandas": lambda: import_module("pandas").DataFrame(PLAIN),
    "xarray": lambda: import_module("xarray").DataArray(PLAIN),
    "PyTorch, on the CPU": lambda: import_module("torch").asarray(PLAIN),
    "any library with DLPack, on the CPU": lambda: Exporter.Tensor(PLAIN),
    "pyopencl": lambda: on_device("opencl"),
    "dpnp": lambda: on_device("sycl"),
    "CuPy": lambda: on_device("cuda"),
}


def made(name: str) -> Any:
    """An array of this kind; LookupError where its package is not installed, or cannot work here."""
    try:
        return KINDS[name]()
    except Exception as error:
        raise LookupError(f"no {name} here: {error}") from error


def observed(x: Any, compute: Callable[[], Any]) -> str:
    """The result's kind and whose product it is, or the error."""
    with gemmlab.trace() as calls:
        try:
            result = compute()
            if hasattr(result, "dask"):
                result.compute(scheduler="synchronous")  # what is lazy has no product yet
        except Exception as error:
            return f"`{type(error).__name__}`"
    kind = type(result)
    name = "its kind" if kind is type(x) and kind is not np.ndarray else f"`{kind.__qualname__}`"
    return f"{name}, by {'gemmlab' if calls else 'its library'}"


def row(name: str) -> str:
    """The row of the table for this kind."""
    x, a = made(name), gemmlab.asarray(PLAIN)
    computed = (
        lambda: gemmlab.matmul(x, x),
        lambda: gemmlab.matmul(x, x, backend="cpu-packed"),
        lambda: a @ x,
        lambda: gemmlab.asarray(x) @ PLAIN,
    )
    return f"| {' | '.join([name, *(observed(x, compute) for compute in computed)])} |"


def rows_on_page() -> dict[str, str]:
    """The rows of the page's table, by kind."""
    table = PAGE.read_text(encoding="utf-8").partition(HEAD)[2].partition("\n\n")[0]
    return {line.split(" | ")[0].removeprefix("| "): line for line in table.splitlines()[2:]}


def main() -> None:
    text, before = PAGE.read_text(encoding="utf-8"), rows_on_page()
    rows = dict(before)
    for name in KINDS:
        try:
            rows[name] = row(name)
        except LookupError as error:
            print(error)
    table = text.partition(HEAD)[2].partition("\n\n")[0]
    lines = [HEAD, "| --- | --- | --- | --- | --- |", *(rows[name] for name in KINDS)]
    PAGE.write_text(text.replace(HEAD + table, "\n".join(lines)), encoding="utf-8")


if __name__ == "__main__":
    main()
