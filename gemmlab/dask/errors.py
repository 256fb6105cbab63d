"""What can go wrong with a product on a cluster; every message is one line that says what to do."""

from gemmlab._errors import GemmlabError


class CannotRead(GemmlabError, OSError):
    """A chunk of an operand cannot be read; the message has the array, the place in it and the reason."""


class Unfinished(GemmlabError, RuntimeError):
    """A product could not be completed. What `out` holds is not the product, and its attributes say so."""
