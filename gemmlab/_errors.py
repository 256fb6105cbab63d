"""The exceptions of gemmlab. Every message says what to do."""


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
