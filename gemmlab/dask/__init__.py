"""Products of Dask arrays and of arrays in Zarr, on one machine or on a cluster.

    import gemmlab.dask
    c = gemmlab.dask.matmul(a, b)       # a lazy Dask array
    print(gemmlab.dask.advise(a, b))    # memory of a worker, bytes moved

    product.py     matmul, and what `gemmlab.matmul` does with these arrays
    operands.py    A and B on one grid of chunks
    workers.py     how many workers there are, their threads and their memory
    plan.py        the tile of a task, by a model of memory and of bytes moved
    graph.py       the graph of tasks
    tasks.py       what workers run
    storing.py     compute a product now and store it in Zarr
    advice.py      advise
    errors.py      CannotRead, Unfinished
    backend.py     the backend "dask", for `gemmlab verify dask`

The third-party package `dask` is loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from gemmlab._process.importing import names_on_first_use
from gemmlab.dask.errors import CannotRead, Unfinished

if TYPE_CHECKING:
    from gemmlab.dask.advice import Advice, advise
    from gemmlab.dask.product import matmul

__all__ = ["Advice", "CannotRead", "Unfinished", "advise", "matmul"]


def _require_dask() -> None:
    try:
        import_module("dask.array")
    except ImportError as error:
        fix = "pip install 'gemmlab[dask]'"
        raise ImportError(f"gemmlab.dask needs Dask, which is not here ({error}); fix: {fix}", name="dask") from None


__getattr__ = names_on_first_use(
    __name__, {"product": ("matmul", "general_matmul"), "advice": ("advise", "Advice")}, _require_dask
)
