"""What is measured: shape suites, a user's files, and their operands.

A `Case` describes a product by numbers and paths alone, so that `asdict` of it can be sent to another process as JSON.
`operands` makes the same arrays from it in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from math import exp, log
from os import PathLike, fspath
from random import Random
from typing import Any

import numpy as np
from numpy.lib.format import open_memmap

from gemmlab._files import check_regular
from gemmlab._problem import Array, DType
from gemmlab._words import printable, shortened
from gemmlab.verify.dtypes import DTYPES, dtype_of, is_exact

Shape = tuple[int, int, int, int]  # batch, m, n, k

# The edges at which the source documents measured, and smaller ones that lead through the caches.
SQUARES_QUICK = (64, 128, 256, 512, 600, 1000, 1400, 2048)
SQUARES_FULL = (16, 32, 64, 128, 256, 512, 600, 1000, 1400, 2048, 4032)

# (label, batch, m, n, k). A convolution is the product weights (filters x window) @ patches (window x
# pixels); a linear layer is tokens @ weights; attention is one product a head.
_RESNET50 = (  # He et al., "Deep Residual Learning", arXiv:1512.03385, table 1, one image of 224 x 224
    ("resnet50 conv1 7x7", 1, 64, 12544, 147),
    ("resnet50 conv2 3x3", 1, 64, 3136, 576),
    ("resnet50 conv2 1x1", 1, 256, 3136, 64),
    ("resnet50 conv3 3x3", 1, 128, 784, 1152),
    ("resnet50 conv5 3x3", 1, 512, 49, 4608),
)
_BERT_BASE = (  # Devlin et al., arXiv:1810.04805: hidden size 768, 12 heads, feed-forward 3072
    ("bert-base qkv, 128 tokens", 1, 128, 2304, 768),
    ("bert-base ffn, 128 tokens", 1, 128, 3072, 768),
    ("bert-base scores, 384 tokens", 12, 384, 384, 64),
    ("bert-base ffn, 384 tokens", 1, 384, 3072, 768),
)
_GPT_J = (  # model card of EleutherAI/gpt-j-6b: d_model 4096, d_ff 16384
    ("gpt-j attention, 1 token", 1, 1, 4096, 4096),
    ("gpt-j attention, 128 tokens", 1, 128, 4096, 4096),
    ("gpt-j ffn, 128 tokens", 1, 128, 16384, 4096),
)
# How many shapes of each sort are drawn, and from where m, n and k: what squares and layers leave out.
_SORTS: dict[str, tuple[int, tuple[int, int], tuple[int, int], tuple[int, int]]] = {
    "odd": (8, (65, 1500), (65, 1500), (65, 1500)),
    "tall": (5, (3000, 20000), (16, 200), (16, 400)),
    "wide": (5, (16, 200), (3000, 20000), (16, 400)),
    "small k": (5, (500, 3000), (500, 3000), (1, 24)),
    "large k": (5, (8, 64), (8, 64), (50_000, 200_000)),
}
# Classes of shape (`gemmlab._auto.shape_class` defines them): from where the batch, m, n and k of eight of each are
# drawn, evenly by their logarithms.
CLASS_ENDS: dict[str, tuple[tuple[int, int], ...]] = {
    "row vector": ((1, 1), (1, 1), (200, 8000), (200, 8000)),
    "column vector": ((1, 1), (200, 8000), (1, 1), (200, 8000)),
    "few rows": ((1, 1), (2, 16), (300, 5000), (300, 5000)),
    "few columns": ((1, 1), (300, 5000), (2, 16), (300, 5000)),
    "short k": ((1, 1), (400, 4000), (400, 4000), (2, 48)),
    "deep k": ((1, 1), (8, 120), (8, 120), (5000, 200_000)),
    "small": ((1, 1), (6, 64), (6, 64), (6, 64)),
    "middle-sized": ((1, 1), (65, 700), (65, 700), (65, 700)),
    "one thin extent": ((1, 1), (20, 250), (500, 3000), (500, 3000)),
    "stack": ((4, 400), (6, 150), (6, 150), (6, 150)),
}
_SEED = 2021  # of the shapes; they were drawn once, before anything was timed on them
_QUICK_LAYERS = frozenset(
    ("resnet50 conv2 3x3", "resnet50 conv5 3x3", "bert-base ffn, 128 tokens", "gpt-j attention, 1 token")
)


@dataclass(frozen=True)
class Case:
    """One product to measure: C = A @ B with A m x k and B k x n, `batch` times over.

    `layout` has a letter each for A, B and C: "C" row-major, "F" column-major, "S" every second row and column of a
    larger row-major array. `a_path` and `b_path` name .npy files that hold the operands; without them the operands are
    random.
    """

    suite: str
    label: str
    m: int
    n: int
    k: int
    dtype: str = "float32"
    a_path: str | None = None
    b_path: str | None = None
    layout: str = "CCC"
    batch: int = 1

    def __post_init__(self) -> None:
        dtype_of(self.dtype)  # raises ValueError
        if min(self.m, self.n, self.k, self.batch) < 1:
            raise ValueError(f"{self.label}: m, n, k and batch must be at least 1")
        if len(self.layout) != 3 or not set(self.layout) <= set("CFS"):
            raise ValueError(f"layout must be three letters, each C, F or S, not {self.layout!r}")

    @property
    def gflop(self) -> float:
        """Work of the product: 2 m n k batch / 10^9."""
        return 2e-9 * self.m * self.n * self.k * self.batch

    @property
    def bytes_compulsory(self) -> int:
        """Bytes of A, B and C together: each is moved once."""
        numbers = self.m * self.k + self.k * self.n + self.m * self.n
        return numbers * self.batch * dtype_of(self.dtype).itemsize

    def problem(self) -> dict[str, Any]:
        """The `problem` entry of a record."""
        return {key: value for key, value in asdict(self).items() if key not in ("a_path", "b_path")}


def sized(sizes: Iterable[int | Shape], dtype: str = "float32", suite: str = "sizes") -> list[Case]:
    """Products of these sizes, in the order given: an integer is a square, else (batch, m, n, k)."""
    shapes = [(1, size, size, size) if isinstance(size, int) else size for size in sizes]
    return [Case(suite, extents(*shape), *shape[1:], dtype, batch=shape[0]) for shape in shapes]


def extents(batch: int, m: int, n: int, k: int) -> str:
    """Return "512" for a square product, else "m x n x k" without spaces, after the batch if there is one."""
    return f"{batch}*" * (batch > 1) + (str(m) if m == n == k else f"{m}x{n}x{k}")


def squares(quick: bool = True, dtype: str = "float32") -> list[Case]:
    """Square products, smallest first: the source documents' sizes, and smaller ones."""
    return sized(SQUARES_QUICK if quick else SQUARES_FULL, dtype, "squares")


def layers(quick: bool = True, dtype: str = "float32") -> list[Case]:
    """Products inside real networks, wide, tall, thin and batched: ResNet-50, BERT-base and GPT-J 6B."""
    return [
        Case("layers", label, m, n, k, dtype, batch=batch)
        for label, batch, m, n, k in _RESNET50 + _BERT_BASE + _GPT_J
        if label in _QUICK_LAYERS or not quick
    ]


def shapes(quick: bool = True, dtype: str = "float32") -> list[Case]:
    """Forty shapes: the layers, and odd, tall, wide, flat and deep ones, drawn with a fixed seed."""
    draw = Random(_SEED)
    drawn = []
    for sort, (count, *edges) in _SORTS.items():
        for number in range(1, count + 1):
            m, n, k = (draw.randint(*ends) | (sort == "odd") for ends in edges)
            drawn.append(Case("shapes", f"{sort} {number}", m, n, k, dtype))
    if quick:
        drawn = [case for case in drawn if case.label.endswith(" 1")]
    return [replace(case, suite="shapes") for case in layers(quick, dtype)] + drawn


def classes(quick: bool = True, dtype: str = "float32") -> list[Case]:
    """Eighty shapes, eight of each class that wants another loop order, drawn with a fixed seed."""
    draw = Random(_SEED)
    drawn = []
    for name, ends in CLASS_ENDS.items():
        for number in range(1, 9):
            batch, m, n, k = evenly(draw, ends)
            drawn.append(Case("classes", f"{name} {number}", m, n, k, dtype, batch=batch))
    return [case for case in drawn if case.label.endswith(" 1")] if quick else drawn


def evenly(draw: Random, ends: Sequence[tuple[int, int]]) -> list[int]:
    """Extents between their ends, drawn evenly by their logarithms."""
    return [round(exp(draw.uniform(log(least), log(most)))) for least, most in ends]


SUITES = {"squares": squares, "layers": layers, "shapes": shapes, "classes": classes}


def from_files(a_path: str | PathLike[str], b_path: str | PathLike[str]) -> Case:
    """The product of two .npy files: a matrix each, or a stack of as many matrices each.

    Numbers of two dtypes become those that NumPy promotes them to, of another byte order this machine's, before
    anything is timed. Two raw bytes are bfloat16, as `numpy.save` writes it.

    Raises
    ------
    ValueError
        One line that names the file and what is wrong with it.
    """
    a_path, b_path = fspath(a_path), fspath(b_path)
    a, b = _open_matrix(a_path), _open_matrix(b_path)
    try:
        dtype = np.result_type(a.dtype, b.dtype).name
    except TypeError:
        raise ValueError(f"{b_path}: holds {b.dtype}, but {a_path} {a.dtype}; NumPy has no common dtype") from None
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(
            f"{b_path}: has {b.shape[-2]} rows, but {a_path} has {a.shape[-1]} columns; A @ B needs them equal"
        )
    if a.shape[:-2] != b.shape[:-2]:
        raise ValueError(
            f"{b_path}: holds {_count(b)}, but {a_path} {_count(a)}; give as many of both (a stack by one matrix is "
            "one product: A.reshape(-1, k) @ B)"
        )
    (m, k), n, batch = a.shape[-2:], b.shape[-1], len(a) if a.ndim == 3 else 1
    return Case("files", extents(batch, m, n, k), m, n, k, dtype, a_path, b_path, _letter(a) + _letter(b) + "C", batch)


def operands(case: Case) -> tuple[Array, Array]:
    """Make A and B of a case: from its files, else random, the same in every process.

    Floating-point numbers are uniform in [0, 1), also the two parts of complex ones; integers are of the whole range of
    their dtype, up to 2^31; bools are true so rarely that about half of C is.

    Returns
    -------
    a, b : ndarray
        Of shape (m, k) and (k, n); stacks (batch, m, k) and (batch, k, n) if `batch` is over 1.
    """
    if case.a_path is not None and case.b_path is not None:
        a, b = (_read_as_saved(np.load(path, allow_pickle=False)) for path in (case.a_path, case.b_path))
        return a.astype(dtype_of(case.dtype), copy=False), b.astype(dtype_of(case.dtype), copy=False)
    rng = np.random.default_rng([case.m, case.n, case.k, DTYPES.index(case.dtype)])
    return tuple(
        laid_out(_random(rng, (*_stack(case), *shape), dtype_of(case.dtype), case.k), letter)
        for shape, letter in zip(((case.m, case.k), (case.k, case.n)), case.layout, strict=False)
    )  # type: ignore[return-value]


def laid_out(x: Array, letter: str) -> Array:
    """A row-major stack of matrices in the layout that a letter stands for."""
    if letter == "C":
        return x
    if letter == "F":
        return np.ascontiguousarray(x.swapaxes(-1, -2)).swapaxes(-1, -2)
    *stack, rows, columns = x.shape
    strided: Array = np.zeros((*stack, 2 * rows, 2 * columns), x.dtype)
    strided = strided[..., ::2, ::2]
    strided[...] = x
    return strided


def _stack(case: Case) -> tuple[int, ...]:
    return (case.batch,) if case.batch > 1 else ()


def _random(rng: np.random.Generator, shape: tuple[int, ...], dtype: DType, k: int) -> Array:
    if dtype.kind == "b":
        rare: Array = rng.random(shape) < (np.log(2) / k) ** 0.5
        return rare
    if is_exact(dtype):
        most = min(2**31, 2 ** (8 * dtype.itemsize - (dtype.kind == "i")))
        return rng.integers(-most if dtype.kind == "i" else 0, most, shape).astype(dtype)
    if dtype.kind == "c":
        return (rng.random(shape) + 1j * rng.random(shape)).astype(dtype)
    return rng.random(shape, np.float64 if dtype.itemsize == 8 else np.float32).astype(dtype, copy=False)


def _open_matrix(path: str) -> Array:
    """Map a file whose matrices can be measured; ValueError with one line for any other file."""
    check_regular(path)
    try:
        # Not np.load: it takes other kinds of file too, and speaks of pickles when it finds none of them.
        with np.errstate(over="ignore"):  # a header may claim any size
            matrix = _read_as_saved(open_memmap(path, mode="r"))
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}") from None
    except Exception as error:  # a damaged header can raise nearly anything
        what = shortened(printable(str(error)), 100)
        raise ValueError(f"{path}: not a readable .npy file ({what})") from None
    if matrix.ndim not in (2, 3):
        raise ValueError(f"{path}: holds a {matrix.ndim}-D array; a matrix or a stack of matrices is needed")
    if matrix.dtype.name not in DTYPES:
        raise ValueError(f"{path}: holds {matrix.dtype}; integers, bool, float16 to float64, bfloat16 or complex "
                         "numbers are needed")
    if matrix.size == 0:
        raise ValueError(f"{path}: is empty ({' x '.join(map(str, matrix.shape))}): nothing to measure")
    if not np.isfinite([matrix.min(), matrix.max()]).all():
        raise ValueError(f"{path}: holds NaN or infinity, so no product with it can be checked")
    return matrix


def _read_as_saved(x: Array) -> Array:
    """An array from a .npy file, in this machine's byte order; `numpy.save` writes bfloat16 as two raw bytes."""
    if x.dtype == "V2":
        return x.view(dtype_of("bfloat16"))
    return x.astype(x.dtype.newbyteorder("="), copy=False)


def _count(x: Array) -> str:
    return f"a stack of {len(x)}" if x.ndim == 3 else "one matrix"


def _letter(x: Array) -> str:
    if x.flags.c_contiguous:
        return "C"
    return "F" if x.swapaxes(-1, -2).flags.c_contiguous else "S"
