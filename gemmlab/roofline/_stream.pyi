import numpy as np
import numpy.typing as npt

STREAMS: dict[str, int]
BLOCK_BYTES: int
PAGE_BYTES: int

def touch(buffer: npt.NDArray[np.int8], threads: int) -> None: ...
def run(
    operation: str, buffer: npt.NDArray[np.int8], stream_bytes: int, threads: int, repeats: int
) -> float: ...
