"""A backend's name, taken apart: the only place that knows how names are written.

    cpu-packed                      a family and a rung
    opencl, opencl:gpu              a runtime, whose best rung is meant; a device of it
    opencl-local, opencl-local:1    a rung of a runtime; on a device
    opencl-local:all                on all devices of the runtime
    cpu-packed+opencl-local         several backends on one product
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

RUNTIMES = ("opencl", "sycl", "cuda")
ALL = "all"  # the device that means every device
JOINT = "+"  # between the names of backends that share a product


@dataclass(frozen=True)
class BackendName:
    """A name in its parts. Any text has some: whether it is the name of a backend is for the registry to say.

    Attributes
    ----------
    text : str
        The whole name.
    members : tuple of BackendName
        The names that "+" joins; empty for a single one.
    family, rung : str
        What is before and after the first "-": "opencl" and "local".
    selector : str
        The device, as text: "1", "gpu", a part of its name, "all"; empty for a backend that is on no runtime.

    Examples
    --------
    >>> name = BackendName.of("opencl-local:1")
    >>> name.runtime, name.rung, name.selector, name.plain, name.device
    ('opencl', 'local', '1', 'opencl-local', 'opencl:1')
    >>> [member.text for member in BackendName.of("cpu-packed+opencl-local").members]
    ['cpu-packed', 'opencl-local']
    """

    text: str
    members: tuple[BackendName, ...]
    family: str
    rung: str
    selector: str

    @staticmethod
    @cache
    def of(text: str) -> BackendName:
        """The parts of a name."""
        if JOINT in text:
            return BackendName(text, tuple(map(BackendName.of, text.split(JOINT))), "", "", "")
        before, _, selector = text.partition(":")
        family, _, rung = before.partition("-")
        if selector and family in RUNTIMES:
            return BackendName(text, (), family, rung, selector)
        family, _, rung = text.partition("-")
        return BackendName(text, (), family, rung, "")

    def __str__(self) -> str:
        return self.text

    @property
    def plain(self) -> str:
        """The name without a device, or those of its members."""
        if self.members:
            return JOINT.join(member.plain for member in self.members)
        return self.text.partition(":")[0] if self.selector else self.text

    @property
    def runtime(self) -> str:
        """The device runtime that a single name belongs to, or an empty string."""
        return self.family if self.family in RUNTIMES else ""

    @property
    def device(self) -> str:
        """The runtime with the device, if one is named: "opencl:1"."""
        return self.runtime + (f":{self.selector}" if self.selector else "")

    @property
    def on_runtime(self) -> bool:
        """Whether it, or one of its members, is of a device runtime."""
        return any(member.on_runtime for member in self.members) or bool(self.runtime)

    @property
    def is_all(self) -> bool:
        """Whether all devices of a runtime are meant."""
        return self.selector == ALL

    @property
    def shares(self) -> bool:
        """Whether it stands for several devices or several backends, which share a product."""
        return bool(self.members) or self.is_all

    def on(self, selector: str) -> str:
        """The name with another device, or with none."""
        return f"{self.plain}:{selector}" if selector else self.plain

    def of_rung(self, rung: str) -> str:
        """The name of another rung of the same runtime, on the same device."""
        return f"{self.runtime}-{rung}" + (f":{self.selector}" if self.selector else "")
