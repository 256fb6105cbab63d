import numpy as np
import numpy.typing as npt

NAMES: tuple[str, ...]

_Real = npt.NDArray[np.float64]
_Sums = npt.NDArray[np.complex128]

def run(
    name: str, aqsm: _Real, aqsn: _Real, eps: _Real, wt: _Real, vcoul: _Real, wx: _Real, column: npt.NDArray[np.int32],
    nvband: int, bands_im: int, rows_im: int, sums: _Sums, first: int, last: int, threads: int,
) -> None: ...  # fmt: skip
def weigh(
    product: _Real, occupied: _Real | None, eps: _Real, wt: _Real, vcoul: _Real, wx: _Real, sums: _Sums, threads: int
) -> None: ...
