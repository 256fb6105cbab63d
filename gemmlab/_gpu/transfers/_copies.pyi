from typing import Any

import numpy as np

def copy(target: np.ndarray[Any, Any], source: np.ndarray[Any, Any], threads: int) -> None: ...
