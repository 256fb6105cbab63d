"""The time that a search has left, and its progress."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic

STEPS = 1000  # of progress


class Clock:
    """Shares the time among the dtypes, and tells the progress; what one dtype leaves over is the others'."""

    def __init__(self, seconds: float, dtypes: Sequence[str], progress: Callable[[int, int, str], None]) -> None:
        self.start_s = self._since_s = monotonic()
        self._end_s, self._progress, self._dtypes = self.start_s + seconds, progress, list(dtypes)
        self._deadline_s = self.start_s

    def begin(self, dtype: str) -> None:
        """The time of a dtype begins."""
        self._since_s = monotonic()
        left = len(self._dtypes) - self._dtypes.index(dtype)
        self._deadline_s = self._since_s + max(0.0, self._end_s - self._since_s) / left

    @property
    def left_s(self) -> float:
        """Seconds that the dtype has left."""
        return max(0.0, self._deadline_s - monotonic())

    @property
    def share(self) -> float:
        """How much of the dtype's time has gone, from 0 to 1."""
        whole = self._deadline_s - self._since_s
        return 1.0 if whole <= 0 else min(1.0, (monotonic() - self._since_s) / whole)

    def tell(self, doing: str) -> None:
        """Show the progress."""
        whole = max(self._end_s - self.start_s, 1e-9)
        self._progress(min(STEPS - 1, int(STEPS * (monotonic() - self.start_s) / whole)), STEPS, doing)

    def end(self) -> None:
        """All is done, maybe before the time is over."""
        self._progress(STEPS, STEPS, "done")
