"""The loops of a function, and which of them is the inner loop of a rung.

A loop is what lies between a jump backwards and its target. Compilers lay a loop out in one piece, so that is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from gemmlab.disassembly.code import Function, Instruction
from gemmlab.disassembly.kinds import counts, kinds_of, products_of

SHARE = 0.9  # of the samples that a loop must have to be the one in which the time is spent


@dataclass(frozen=True)
class Loop:
    """A loop of a function, from its first instruction to its jump backwards."""

    function: Function
    body: Sequence[Instruction]

    def holds(self, address: int) -> bool:
        """Whether an address lies in it."""
        return self.body[0].address <= address <= self.body[-1].address

    def samples(self, samples: Mapping[int, int]) -> int:
        """How many of some samples lie in it."""
        return sum(count for address, count in samples.items() if self.holds(address))

    @property
    def multiply_adds(self) -> int:
        """How many multiply-adds are written in it."""
        return counts(self.body)["multiply-adds"]

    @property
    def products(self) -> int:
        """How many pairs of numbers an iteration multiplies."""
        return sum(products_of(one) for one in self.body if "multiply-adds" in kinds_of(one))


def loops_of(function: Function) -> Iterator[Loop]:
    """All loops of a function, the shortest first."""
    where = {one.address: place for place, one in enumerate(function.instructions)}
    ends: dict[int, int] = {}
    for place, one in enumerate(function.instructions):
        if one.jumps_to in where and where[one.jumps_to] <= place:
            ends[where[one.jumps_to]] = max(place, ends.get(where[one.jumps_to], 0))
    for start, end in sorted(ends.items(), key=lambda ends: ends[1] - ends[0]):
        yield Loop(function, function.instructions[start : end + 1])


def hot_loop(functions: Sequence[Function], samples: Mapping[int, int]) -> tuple[Loop, float]:
    """The shortest loop with multiply-adds that has `SHARE` of the samples outside copying, and its share of them.

    Copying is done in an innermost loop without a multiply-add, or in a function without any. Where no single loop has
    so many samples, it is the one with the most.
    """
    functions = [function for function in functions if any(map(function.holds, samples))]
    candidates = [loop for function in functions for loop in loops_of(function) if loop.multiply_adds]
    copied = {address for function in functions for address in _copies(function, samples)}
    counted = {address: count for address, count in samples.items() if address not in copied}
    total = max(1, sum(counted.values()))
    found = sorted(candidates, key=lambda loop: len(loop.body))
    shares = [loop.samples(counted) / total for loop in found]
    best = next((place for place, share in enumerate(shares) if share >= SHARE), None)
    best = shares.index(max(shares)) if best is None else best
    return found[best], shares[best]


def innermost(loop: Loop, samples: Mapping[int, int]) -> Loop:
    """The loop inside `loop` in which most of its time is spent, or itself; without samples the longest inside it."""
    inside = [loop, *(one for one in loops_of(loop.function) if one.multiply_adds and _is_inside(one, loop))]
    return max(leaves(inside), key=lambda one: (one.samples(samples), one.multiply_adds))


def leaves(loops: Sequence[Loop]) -> list[Loop]:
    """Those without another of them inside."""
    return [loop for loop in loops if not any(_is_inside(other, loop) for other in loops)]


def likely_loop(functions: Sequence[Function], like: Function) -> Loop:
    """The innermost loop with the most work in the functions of another build that are named like `like`.

    Where the compiler has put that one into its callers, it is the one of all functions of that dtype.
    """
    for label in (_label, _dtype):
        alike = [function for function in functions if label(function) == label(like)]
        loops = [loop for function in alike for loop in loops_of(function) if loop.multiply_adds]
        if loops:
            break
    return max(leaves(loops), key=lambda loop: loop.products)


def _label(function: Function) -> str:
    """What names a function in every build: of a Cython rung its dtype, of a template its name without numbers."""
    if dtype := re.search(r"__pyx_fuse_\d", function.name):
        return dtype[0]
    return re.sub(r"half_|\d", "", function.name)


def _dtype(function: Function) -> str:
    found = re.search(r"__pyx_fuse_\d|<(float|double)\b", function.name)
    return found[0] if found else ""


def _is_inside(inner: Loop, outer: Loop) -> bool:
    ends = inner.body[0].address, inner.body[-1].address
    return inner.function is outer.function and len(inner.body) < len(outer.body) and all(map(outer.holds, ends))


def _copies(function: Function, samples: Mapping[int, int]) -> Iterator[int]:
    """Sampled addresses of a function in loops that only move numbers."""
    loops = list(loops_of(function))
    inside = list(filter(function.holds, samples))
    if not counts(function.instructions)["multiply-adds"]:
        yield from inside
        return
    for address in inside:
        innermost = next((loop for loop in loops if loop.holds(address)), None)
        if innermost is not None and not innermost.multiply_adds:
            yield address
