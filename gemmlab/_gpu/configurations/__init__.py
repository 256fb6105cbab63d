"""Which parameters a rung takes for a product: those of a profile, else its defaults.

    model.py           how long a product is predicted to take with a configuration
    rates.py           what of that is probed on the device itself: its memory, and what a launch takes
    check.py           one small product, which a configuration must get right before it is used
    local_memory.py    how much local memory a kernel may declare

`gemmlab tune` measures configurations, a few for each device, backend and dtype: one for each shape that it was given.
For a product, the one that is predicted to be the fastest is taken, and on GPUs what is fitted to the product's size is
chosen by the same prediction. What the caller gives goes before it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gemmlab import _profile
from gemmlab._backend import Params, by_todays_names
from gemmlab._gpu.batches import GemmSize
from gemmlab._gpu.configurations import check, model
from gemmlab._gpu.configurations.model import Prediction
from gemmlab._gpu.configurations.rates import rates_of
from gemmlab._gpu.ladder.rung import Rung, local_limit
from gemmlab._gpu.plans import table
from gemmlab._gpu.runtime import Device, Queue
from gemmlab._name import BackendName
from gemmlab._problem import Problem
from gemmlab._profile import Configuration

if TYPE_CHECKING:
    from gemmlab._gpu.backend import RungBackend

__all__ = ["device_key", "forget", "known", "note", "prediction", "resolve", "understood"]

_MAX_CHOICES = 4096
_choices: dict[Hashable, dict[str, int]] = {}  # what was resolved, for products without parameters of the caller


class Choice(NamedTuple):
    """A configuration for a product, its parameters with what is fitted to the size, and on a GPU the prediction."""

    configuration: Configuration
    parameters: Params
    prediction: Prediction | None = None


def device_key(device: Device) -> str:
    """What a profile calls the architecture of a device: never its name.

    A GPU's is its compute capability or, where it has none, the platform with what its work-groups may have. A CPU's is
    the runtime and the width of vectors. Of two devices with one key, a compute unit runs a kernel at the same speed,
    but for the clock.
    """
    if device.kind == "cpu":
        return f"{device.platform}, {device.vector_bits} bits"
    if device.compute_capability is not None:
        return _profile.of_capability(f"{device.compute_capability // 10}.{device.compute_capability % 10}")
    return f"{device.platform}, sub-groups of {device.sub_group}, {local_limit(device) // 1024} KiB of local memory"


def resolve(backend: RungBackend, queue: Queue, problem: Problem, given: Params) -> dict[str, int]:
    """All parameters for a problem: the given ones, and those of a profile or the defaults for the rest."""
    if given and any(value is not None for value in given.values()):
        return _for_size(backend, queue, problem, _around(given, backend, queue, problem))
    device = queue.device
    key = backend.name, device.name, device.index, problem.dtype, problem.m, problem.n, problem.k, problem.batch
    found = _choices.get(key)
    if found is None:
        chosen = _fastest(backend, queue, problem, checked=True)
        if len(_choices) >= _MAX_CHOICES:
            _choices.clear()
        found = _choices[key] = _for_size(backend, queue, problem, {} if chosen is None else chosen.parameters)
    return dict(found)


def _for_size(backend: RungBackend, queue: Queue, problem: Problem, given: Params) -> dict[str, int]:
    size = GemmSize(problem.m, problem.n, problem.k, problem.batch)
    return backend.rung.resolve(given, queue.device.kind, size, queue.device.compute_units)


def note(backend: RungBackend, queue: Queue, problem: Problem) -> str:
    """Where the parameters for a problem come from, for `gemmlab.explain`; "" if they are the defaults."""
    key, dtype = device_key(queue.device), problem.dtype.name
    wrong = "; ".join(check.reasons(backend, queue, dtype))
    chosen = _fastest(backend, queue, problem, checked=False)
    if chosen is None:
        is_unknown = queue.device.kind == "gpu" and not known(backend, queue, dtype) and backend.rung.searched("gpu")
        tune = f"defaults, since nothing was measured on {key}: `gemmlab tune {backend.name} --minutes 2` does it"
        return "; ".join(filter(None, (tune if is_unknown else "", wrong)))
    m, n, k = chosen.configuration.shape
    said = f"fastest at {m} x {n} x {k}" if chosen.prediction is None else f"with which {chosen.prediction}"
    text, driver = f"with the profile's parameters for {key}, {said}", chosen.configuration.driver
    if driver != queue.device.driver:
        text += f"; measured with another driver ({driver}; this is {queue.device.driver})"
    return "; ".join(filter(None, (text, wrong)))


def prediction(backend: RungBackend, queue: Queue, problem: Problem) -> Prediction | None:
    """What the kernels of a product of device arrays are predicted to take; None where nothing was measured."""
    chosen = _fastest(backend, queue, problem, checked=False)
    return None if chosen is None else chosen.prediction


def known(backend: RungBackend, queue: Queue, dtype: str) -> tuple[Configuration, ...]:
    """All configurations for products of a dtype on the backend's device.

    Without its own, float16 has those of float32: in local memory and in the sums, its numbers are of float32.
    """
    key, name = device_key(queue.device), BackendName.of(backend.name).plain
    read = partial(understood, backend=backend, kind=queue.device.kind)
    for of in (dtype, *(["float32"] if dtype == "float16" else [])):
        if found := _profile.configurations(key, name, of, read):
            return found
    return ()


def forget() -> None:
    """Have the next products read the profile again, and check what is not known to have passed."""
    _choices.clear()
    table.forget_all()
    check.forget()


def _around(given: Params, backend: RungBackend, queue: Queue, problem: Problem) -> dict[str, int]:
    """The given parameters with those of a profile, where they go together, or else with the defaults."""
    rung, device = backend.rung.on(queue.device.kind), queue.device
    plain = rung.resolve(given, device.kind)
    if all(given.get(param.name) is not None for param in rung.params):
        return plain
    chosen = _fastest(backend, queue, problem, checked=True)
    if chosen is None:
        return plain
    own = {name: x for name, x in given.items() if x is not None}
    mixed = rung.resolve({**chosen.configuration.parameters, **own}, device.kind)
    return plain if rung.refusal(mixed, problem.dtype.name, device) else mixed


def _fastest(backend: RungBackend, queue: Queue, problem: Problem, checked: bool) -> Choice | None:
    """The configuration that suits a problem best, of those that can run; with `checked`, that are right too."""
    dtype, rung = problem.dtype.name, backend.rung.on(queue.device.kind)
    if dtype not in rung.dtypes or 0 in (problem.m, problem.n, problem.k, problem.batch):
        return None
    fitting = [
        one for one in known(backend, queue, dtype)
        if rung.refusal(rung.resolve(one.parameters, queue.device.kind), dtype, queue.device) is None
    ]  # fmt: skip
    for choice in _ordered(fitting, rung, queue, problem):
        usable = check.passes if checked else check.has_not_failed
        if usable(backend, queue, dtype, choice.configuration):
            return choice
    return None


def _ordered(found: Sequence[Configuration], rung: Rung, queue: Queue, problem: Problem) -> list[Choice]:
    """Choices, the best first: on a GPU the fastest, on a CPU what was measured on the nearest size."""
    m, n, k = problem.m, problem.n, problem.k
    if queue.device.kind == "cpu":
        near = sorted(found, key=lambda one: model.doublings(one.shape, (m, n, k)))
        return [Choice(one, one.parameters) for one in near]
    size = GemmSize(m, n, k, problem.batch)
    device, itemsize = queue.device, problem.dtype.itemsize
    choices = [(one, *model.fastest(one, rung, device, size, itemsize, rates_of(queue))) for one in found]
    return [Choice(*one) for one in sorted(choices, key=lambda one: one[2].seconds)]


def understood(one: Configuration, backend: RungBackend, kind: str) -> Configuration | None:
    """A configuration with just the parameters that the backend has: an older gemmlab may have had others.

    An old name is read, an absent parameter takes its default, an unknown one is dropped. None if the backend does not
    accept a value.
    """
    known = {name: x for name, x in by_todays_names(one.parameters).items() if name in backend.params}
    parameters = backend.rung.resolve(known, kind)
    accepted = all(backend.params[name].constraint(x) for name, x in parameters.items())
    return replace(one, parameters=parameters) if accepted else None
