"""The exceptions of gemmlab. Every message says what to do."""

from collections.abc import Iterable, Sequence


def suggestion(near: Sequence[str], known: Iterable[str]) -> str:
    """The end of a message about an unknown name: the names near it, or else all that are known."""
    return f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"


class GemmlabError(Exception):
    """Base class of all exceptions that gemmlab defines."""


class UnknownBackend(GemmlabError, LookupError):
    """No backend has this name; the message lists similar names."""


class BackendUnavailable(GemmlabError, RuntimeError):
    """The backend is known but cannot run here; the message has the reason and a fix."""


class UnsupportedProblem(GemmlabError, TypeError):
    """The backend does not support this dtype, layout or type of array."""


class DeviceError(GemmlabError, RuntimeError):
    """A device ran out of memory, was lost, or could not build a kernel."""


class CannotWrite(GemmlabError, OSError):
    """An output path cannot be written."""
