import numpy as np
import numpy.typing as npt

_Real = npt.NDArray[np.float64]
_Sums = npt.NDArray[np.complex128]

class Loops:
    def __init__(self, isa_name: str | None = None) -> None: ...
    @property
    def names(self) -> tuple[str, ...]: ...
    def run(
        self, name: str, aqsm: _Real, aqsn: _Real, eps: _Real, wt: _Real, vcoul: _Real, wx: _Real,
        column: npt.NDArray[np.int32], nvband: int, bands_im: int, rows_im: int, sums: _Sums, first: int, last: int,
        threads: int,
    ) -> None: ...  # fmt: skip
    def weigh(
        self, product: _Real, occupied: _Real | None, eps: _Real, wt: _Real, vcoul: _Real, wx: _Real, sums: _Sums,
        threads: int,
    ) -> None: ...  # fmt: skip
