"""One product, from file to file, in tiles by this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from time import perf_counter

import numpy as np

from gemmlab import _registry
from gemmlab._api import requested_backend
from gemmlab._api.adding import adds
from gemmlab._backend import FullBackend
from gemmlab._config import Scope, check_bytes, check_threads, scope
from gemmlab._cpu.machine import free_memory_bytes
from gemmlab._errors import UnsupportedProblem
from gemmlab._name import BackendName
from gemmlab._problem import DType, Problem, sums_of
from gemmlab.product import identity, tiles, zarrs
from gemmlab.product.check import Check, check
from gemmlab.product.job import Job, PathLike, Result, open_matrix, prepared
from gemmlab.product.plan import STEP, Sizes, Tiling, choose
from gemmlab.product.sums import PartialSums

SAMPLE = 4096  # "auto" chooses for a product of up to so many rows, columns and terms
CHUNK = 2048  # rows and columns of a chunk at most, where no input is in chunks
Progress = Callable[[int, int, str], None]


def product(
    a_path: PathLike,
    b_path: PathLike,
    out_path: PathLike,
    *,
    backend: str | None = None,
    memory: int | str | None = None,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Result:
    """Multiply the matrices in two files, of any size, into a third.

    A call that was interrupted or killed goes on about where it was when it is made again; on a CPU it gives the bits
    that it would have given. "cpu-packed" gives the same bits in any `memory`. The output has a temporary name until a
    random vector has checked it; an earlier output is replaced then.

    Parameters
    ----------
    a_path, b_path : path
        Matrices of m x k and k x n, each a .npy file or a folder with a Zarr array.
    out_path : path
        The output, m x n, in the dtype that numpy.matmul gives; .npy or .zarr.
    backend : str, optional
        Who multiplies; "auto" chooses once for all tiles.
    memory : int or str, optional
        Bytes that tiles may take, such as "2GiB". Half of the free memory, or what the call took that is resumed.
    threads : int, optional
        Threads of each product.
    progress : callable, optional
        Called with the work that is done, all work of this call, and what is done now.

    Returns
    -------
    Result

    Raises
    ------
    ValueError
        The shapes do not agree, the output is an input, or the memory is too small.
    UnsupportedProblem
        An input holds no numbers, the backend does not multiply this dtype, or several backends share the product.
    CannotWrite
        The disk is full, or another process works on this output.
    CannotResume
        What was begun is not what is asked for now.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np
    >>> from gemmlab.product import product
    >>> folder = tempfile.TemporaryDirectory()
    >>> a, b, c = (Path(folder.name, name) for name in ("a.npy", "b.npy", "c.npy"))
    >>> np.save(a, np.ones((3, 4)))
    >>> np.save(b, np.ones((4, 2)))
    >>> product(a, b, c).ok
    True
    >>> np.load(c).tolist()
    [[4.0, 4.0], [4.0, 4.0], [4.0, 4.0]]
    >>> folder.cleanup()
    """
    start = perf_counter()
    limit, threads = check_bytes(memory), check_threads(threads)
    show = progress or (lambda done, total, doing: None)
    with prepared(a_path, b_path, out_path) as job:
        chosen = _backend(backend, job)
        asked = job.header("tiles", identity.of_backend(chosen, job.dtype, threads))
        if job.journal.header is None:
            plan = _begun(job, chosen, limit or free_memory_bytes() // 2, asked)
        else:
            plan = _resumed(job, limit)
        found, work = len(job.journal.whole), 0
        parts: dict[str, float] = {}
        if found < len(plan.tiles):
            work, parts = _computed(job, chosen, threads, plan, show)
        all_work = plan.m * plan.n * plan.k
        checked, parts["check"] = _checked(job, plan, show)
        path = finished(job, checked)
        return Result(
            path, plan.m, plan.n, plan.k, dtype=job.dtype.name, engine="tiles", backend=chosen.name, plan=plan,
            tiles_found=found, share_found=1 - work / all_work if all_work else 0.0, checked_by=checked.by,
            error=checked.error, seconds=perf_counter() - start, parts_s=parts, gflop=2e-9 * work,
        )  # fmt: skip


def finished(job: Job, checked: Check) -> Path:
    """Give a right product its name, and remove the journal; the path where the product is."""
    if not checked.ok:
        return job.written
    if not job.journal.checked:
        job.journal.add_check(checked.error)
    job.output.finish()
    job.journal.remove()
    return job.output.path


def _resumed(job: Job, limit: int | None) -> Tiling:
    """The plan of the journal: its blocks of k are part of the order of summation."""
    assert job.journal.header is not None
    if limit is not None:
        job.journal.compare({"memory": limit})
    try:
        plan = Tiling(**job.journal.header["plan"])
    except (KeyError, TypeError):
        raise job.journal.cannot_resume("its journal has no plan") from None
    if not plan.is_of(job.sizes):
        raise job.journal.cannot_resume("the plan in its journal is not of these inputs")
    if not job.journal.whole <= set(range(len(plan.tiles))):
        raise job.journal.cannot_resume("its journal has tiles that its plan has not")
    return plan


def _backend(name: str | None, job: Job) -> FullBackend:
    """The backend of the whole product. "auto" chooses once, so that all tiles have the same."""
    m, n, k = (min(size, SAMPLE) for size in job.sizes)
    problem = Problem.from_call(np.empty((m, k), job.dtype), np.empty((k, n), job.dtype))
    name = requested_backend(name, scope.get() or Scope())
    if BackendName.of(str(name)).members:
        raise UnsupportedProblem(
            f"the shares of {name} differ from call to call, and with them the bits of a product that is resumed: name "
            "one of these backends"
        )
    chosen = _registry.choose(problem) if name == "auto" else _registry.get(name)
    if (refused := _registry.refusal(chosen, problem)) is not None:
        raise UnsupportedProblem(refused)
    return chosen


def _begun(job: Job, backend: FullBackend, memory: int, asked: Mapping[str, object]) -> Tiling:
    """A new plan, with a temporary output for it, and a journal."""
    plan, chunks = _planned(job, backend, memory)
    job.output.create(job.shape, job.dtype, chunks)
    job.journal.begin({**asked, "memory": memory, "plan": plan.as_dict()})
    return plan


def _planned(job: Job, backend: FullBackend, memory: int) -> tuple[Tiling, tuple[int, int]]:
    """The plan, and the chunks of the output: those of the inputs, or as large as tiles let them be."""
    side = CHUNK
    while True:
        chunks = output_chunks(job, side)
        try:
            return choose(_sizes(job, backend, chunks), memory, _overhead(job, chunks)), chunks
        except ValueError:
            if not job.output.is_zarr or side <= STEP:
                raise
        side //= 2


def output_chunks(job: Job, side: int) -> tuple[int, int]:
    """As high as those of A and as wide as those of B; of at most `side` where an input has none."""
    rows, columns = (min(side, max(1, extent)) for extent in job.shape)
    return (job.a.chunks[0] if job.a.chunks else rows), (job.b.chunks[1] if job.b.chunks else columns)


def _overhead(job: Job, chunks: tuple[int, int]) -> int:
    """What reading takes, in one thread, and what writing takes."""
    of_output = zarrs.overhead_bytes(chunks, job.dtype) if job.output.is_zarr else 0
    return max(job.a.overhead_bytes, job.b.overhead_bytes) + of_output


def _sizes(job: Job, backend: FullBackend, chunks: tuple[int, int]) -> Sizes:
    """Tiles are of whole chunks of the output; blocks are of whole chunks of the inputs, where those agree, and k is
    cut where the backend says."""
    of_a, of_b = job.a.chunks, job.b.chunks
    rows, columns = chunks if job.output.is_zarr else (of_a[0] if of_a else STEP, of_b[1] if of_b else STEP)
    depth = max(of_a[1] if of_a else STEP, of_b[0] if of_b else STEP)
    step = _block_of_k(job, backend)
    (block, wide), (cut_block, cut_wide) = (_dtypes(job, step, is_cut) for is_cut in (False, True))
    return Sizes(
        *job.sizes, job.a.dtype.itemsize, job.b.dtype.itemsize, (block.itemsize, wide.itemsize),
        (cut_block.itemsize, cut_wide.itemsize), adds(backend.name, sums_of(job.dtype)),
        (rows, columns, depth if step is None else -(-depth // step) * step),
        (of_a[0] if of_a else STEP, of_b[1] if of_b else STEP),
    )  # fmt: skip


def _block_of_k(job: Job, backend: FullBackend) -> int | None:
    """See `FullBackend.block_of_k`."""
    m, n, k = job.sizes
    a, b = (np.broadcast_to(np.zeros((), job.dtype), shape) for shape in ((min(m, 2), k), (k, min(n, 2))))
    return backend.block_of_k(Problem.from_call(a, b, dtype=sums_of(job.dtype)))


def _dtypes(job: Job, block: int | None, is_cut: bool) -> tuple[DType, DType]:
    """The dtypes of blocks of operands and of sums. Sums over several blocks of k are not rounded between them; with
    `block_of_k` a backend takes operands of half the width for them."""
    wide = sums_of(job.dtype)
    if block is not None:
        return job.dtype, wide
    return (wide, wide) if is_cut else (job.dtype, job.dtype)


def _computed(
    job: Job, backend: FullBackend, threads: int | None, plan: Tiling, show: Progress
) -> tuple[int, dict[str, float]]:
    """Compute what is left: its work in multiply-adds, and where the time went."""
    block = _block_of_k(job, backend)
    dtypes = _dtypes(job, block, len(plan.depths) > 1)
    multiplier = tiles.Multiplier(backend, threads, plan, dtypes, 0 if block is None else plan.k)
    copy_bytes = plan.tm * plan.tn * dtypes[1].itemsize
    with closing(open_matrix(job.output.part, writable=True)) as out, PartialSums(job.output.sums, copy_bytes) as kept:
        steps = tiles.left(plan, job.journal, kept, multiplier)
        seconds = tiles.compute(job.a, job.b, out, plan, multiplier, job.journal, kept, steps, show)
    return sum(step.work for step in steps), vars(seconds)


def _checked(job: Job, plan: Tiling, show: Progress) -> tuple[Check, float]:
    start = perf_counter()
    show(1, 1, "check")
    job.refuse_changed_inputs()
    checked = check_part(job, plan.bytes_memory)
    return checked, perf_counter() - start


def check_part(job: Job, memory: int) -> Check:
    """Check all of the output, before it has its name."""
    with closing(open_matrix(job.written)) as out:
        return check(job.a, job.b, out, job.dtype, memory, np.random.default_rng())
