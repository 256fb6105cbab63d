"""The inner loop of a backend as a record and as text in 80 columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from textwrap import fill

from gemmlab._cpu import isa as instruction_sets
from gemmlab._errors import UnsupportedProblem
from gemmlab._name import BackendName
from gemmlab._words import number, percent
from gemmlab.disassembly.code import Instruction, functions_of
from gemmlab.disassembly.kinds import counts
from gemmlab.disassembly.loops import Loop, hot_loop, innermost, likely_loop
from gemmlab.disassembly.ports import Bound, bound_of
from gemmlab.disassembly.sampling import sampled_library
from gemmlab.measure.table import WIDTH

EDGE = 1008
FOLDED = 12  # instructions in a row without a sample are one line
NO_LINES = "Source: this build has no line numbers."


@dataclass(frozen=True)
class Listing:
    """The inner loop of a backend in one instruction set.

    `loop` has `share` of the samples outside copying, None for a build that was not run; `inner` is the one of its
    loops in which most of that time is spent, or itself. `samples` are those of each address. `bound` is that of an
    iteration of `inner`, None without llvm-mca.
    """

    backend: str
    dtype: str
    isa: str
    loop: Loop
    inner: Loop
    share: float | None
    samples: Mapping[int, int]
    bound: Bound | None

    def to_dict(self) -> dict[str, object]:
        """For `--json`."""
        return {
            "backend": self.backend, "dtype": self.dtype, "isa": self.isa, "function": self.loop.function.name,
            "share_of_samples": self.share, "counts": counts(self.inner.body),
            "cycles_by_ports": self.bound.cycles if self.bound else None,
            "processor": self.bound.processor if self.bound else None,
            "instructions": [
                {
                    "address": one.address, "text": one.text, "source": one.source,
                    "samples": self.samples.get(one.address, 0), "inner": self.inner.holds(one.address),
                }
                for one in self.loop.body
            ],
        }  # fmt: skip


def inner_loop_of(backend: str, dtype: str = "float32", isa: str | None = None) -> Listing:
    """The inner loop of a CPU rung: found by samples of products of N = `EDGE` on one thread, in the build in force.

    In another build it is the loop of the same function that has the most and widest multiply-adds.

    Raises
    ------
    UnsupportedProblem
        For a backend whose machine code is not gemmlab's, or an instruction set that was not built.
    NoDisassembler
        Without objdump.
    """
    here = instruction_sets.chosen()
    if isa is not None and BackendName.of(backend).on_runtime:
        raise UnsupportedProblem(f"a driver compiles {backend} for this machine alone: leave out --isa")
    library = sampled_library(backend, dtype, EDGE)
    functions = functions_of(library.path)
    loop, share = hot_loop(functions, library.samples)
    wanted = isa or here
    if wanted != here:
        loop = likely_loop(functions_of(_build_for(library.path, here, wanted)), loop.function)
    runs_here = wanted in instruction_sets.available()
    samples = library.samples if wanted == here else {}
    inner = innermost(loop, samples)
    bound = bound_of(inner.body, wanted, runs_here)
    return Listing(backend, dtype, wanted, loop, inner, share if wanted == here else None, samples, bound)


def _build_for(library: Path, here: str, wanted: str) -> Path:
    """The same library of another instruction set."""
    path = library.parent.parent / wanted / library.name
    if library.parent.name != here or not path.is_file():
        raise UnsupportedProblem(f"there is no build for {wanted} of {library.name.partition('.')[0]} here")
    return path


def text_of(listing: Listing) -> str:
    """The listing in 80 columns: each instruction with its share of the samples and its line, then the counts."""
    body, total = listing.loop.body, max(1, sum(listing.samples.values()))
    lines = [f"{listing.backend}, {listing.dtype}, {listing.isa}: {_short(listing.loop.function.name)}", ""]
    shown = _shown(body, listing.samples)
    has_source = any(one.source for one in body)
    source_width = max((len(one.source) for one in body), default=0)
    room = WIDTH - 8 - (source_width + 2) * has_source
    for sampled, group in groupby(body, key=lambda one: one.address in shown):
        own = list(group)
        if not sampled:
            lines.append(f"        … {len(own)} instructions that were never sampled")
            continue
        for one in own:
            share = f"{100 * listing.samples.get(one.address, 0) / total:5.1f} %" if listing.samples else " " * 7
            text = one.text if len(one.text) <= room else one.text[: room - 1] + "…"
            mark = "|" if listing.inner is not listing.loop and listing.inner.holds(one.address) else " "
            lines.append(f"{share}{mark}{text:{room}}{f'  {one.source}' * has_source}".rstrip())
    found = counts(listing.inner.body)
    said = ", ".join(f"{count} {kind}" for kind, count in found.items() if count or kind == "spills")
    where = "An iteration" if listing.inner is listing.loop else "An iteration of the loop inside (|)"
    notes = [f"{where}: {said}."]
    if listing.share is not None:
        notes.append(f"{percent(listing.share)} of the samples at N = {EDGE} are here, without those of copying.")
    else:
        notes.append("Not run here: of the functions of this name, the loop with the most work.")
    notes += [_bound_text(listing), *[NO_LINES] * (not has_source)]
    wrapped = (fill(note, WIDTH, subsequent_indent="  ", break_on_hyphens=False) for note in notes)
    return "\n".join([*lines, "", *wrapped])


def _shown(body: Sequence[Instruction], samples: Mapping[int, int]) -> set[int]:
    """Addresses of the instructions to list: all but long runs without a sample."""
    found: set[int] = set()
    for sampled, group in groupby(body, key=lambda one: samples.get(one.address, 0) > 0):
        own = [one.address for one in group]
        if sampled or len(own) < FOLDED or not samples:
            found.update(own)
    return found


def _bound_text(listing: Listing) -> str:
    if listing.bound is None:
        return "No bound of the ports: llvm-mca (apt install llvm) is not here, or knows no such instructions."
    flop = 2 * listing.inner.products
    return (f"Bound of the ports ({listing.bound.by}): {number(listing.bound.cycles)} cycles an iteration, "
            f"{number(flop / listing.bound.cycles)} flop a cycle.")  # fmt: skip


def _short(name: str) -> str:
    """A function's name without its arguments."""
    plain = name.replace("(anonymous namespace)::", "")
    head = plain.partition("(")[0].removeprefix("void ")
    return head if len(head) <= 50 else head[:49] + "…"
