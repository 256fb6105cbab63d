"""One large product, from file to file: `gemmlab product`.

    run.py         product: begin or go on, compute, check, give the output its name
    on_dask.py     the same on a Dask cluster
    job.py         what comes before the work, on either engine: open the files; the result
    matrices.py    a matrix in a file: what the product asks of one
    npy.py         .npy files, by plain reads and writes
    zarrs.py       Zarr arrays in folders, by whole chunks
    plan.py        the tiles, by what they make it read
    tiles.py       compute the tiles: read ahead, multiply, write, sync
    reader.py      a thread that reads ahead
    journal.py     what was asked for and which tiles are whole; the lock
    sums.py        sums of a tile that is not whole, on disk
    identity.py    what bits depend on besides: build, machine, profile
    output.py      temporary and final names; full disks, and outputs that are inputs
    check.py       the check by a random vector, in bounded memory
"""

from gemmlab.product.job import Result
from gemmlab.product.journal import CannotResume
from gemmlab.product.on_dask import product_on_dask
from gemmlab.product.run import product

__all__ = ["CannotResume", "Result", "product", "product_on_dask"]
