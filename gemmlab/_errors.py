"""What can go wrong, by name. Every error says what to do."""


class GemmlabError(Exception):
    """Base of every error that gemmlab itself raises."""


class UnknownBackend(GemmlabError, LookupError):
    """No backend has this name; the message lists near names."""


class BackendUnavailable(GemmlabError, RuntimeError):
    """The backend is known but cannot run here; the message gives the reason and the fix."""


class UnsupportedProblem(GemmlabError, TypeError):
    """The backend does not do this dtype, layout or kind of array."""


class DeviceError(GemmlabError, RuntimeError):
    """A device ran out of memory, was lost, or could not build a kernel."""


class CannotWrite(GemmlabError, OSError):
    """An output path cannot be written."""
