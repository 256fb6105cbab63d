"""The inner loop of a GPU kernel in PTX, the assembly language of NVIDIA's compilers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import accumulate

from gemmlab.disassembly.code import Function, Instruction
from gemmlab.disassembly.loops import Loop, leaves, loops_of

ENTRY = r"\.entry\s+{name}\s*\(.*?\n\{{(.*?)\n\}}"
LABEL = re.compile(r"^(\$?\w+):")
PLACE = re.compile(r"^\.loc\s+\d+\s+(\d+)")
BRANCH = re.compile(r"^(?:@!?%\w+\s+)?bra(?:\.uni)?\s+(\$?\w+);")
INSTRUCTION = re.compile(r"^((?:@!?%\w+\s+)?[a-z][\w.:]*(?:\s.*)?);")
KINDS = {  # of an instruction, by how it begins
    "multiply-adds": re.compile(r"(fma|mad)\.r\w+\.[fb]\w+|mma\.|wgmma\.mma"),
    "reads of global memory": re.compile(r"ld\.global"),
    "writes to global memory": re.compile(r"st\.global"),
    "reads of local memory": re.compile(r"ld\.shared|ldmatrix"),
    "writes to local memory": re.compile(r"st\.shared"),
    "asynchronous copies": re.compile(r"cp\.async\.(c[ag]|bulk)\."),
    "barriers": re.compile(r"m?bar(rier)?\."),
    "spills": re.compile(r"(ld|st)\.local"),
}
OTHER = "other"


def kernel_in(ptx: str, name: str, files: Sequence[tuple[str, int]]) -> Function:
    """A kernel's instructions; `files` are the names and lines of the texts that were compiled one after another."""
    found = re.search(ENTRY.format(name=name), ptx, re.DOTALL)
    assert found is not None, name
    ends = list(accumulate(lines for _, lines in files))
    rows: list[tuple[str, str]] = []
    labels: dict[str, int] = {}
    source = ""
    for line in _statements(found[1]):
        if label := LABEL.match(line):
            labels[label[1]] = len(rows)
        elif place := PLACE.match(line):
            source = _source(int(place[1]), files, ends)
        elif one := INSTRUCTION.match(line):
            rows.append((re.sub(r"\s+", " ", one[1]), source))
    jumps = [BRANCH.match(f"{text};") for text, _ in rows]
    return Function(name, [
        Instruction(number, text, source, labels.get(jump[1]) if jump else None)
        for number, ((text, source), jump) in enumerate(zip(rows, jumps, strict=True))
    ])  # fmt: skip


def _statements(text: str) -> Iterator[str]:
    """The lines of a kernel; those of a block that inline assembly has in one line, one after another."""
    for line in map(str.strip, text.splitlines()):
        if line.startswith("{ "):
            yield from (f"{part.strip()};" for part in line.strip("{} ").split(";"))
        else:
            yield line


def _source(line: int, files: Sequence[tuple[str, int]], ends: Sequence[int]) -> str:
    for (name, lines), end in zip(files, ends, strict=True):
        if 0 < line <= end:
            return f"{name.rpartition('/')[2]}:{line - (end - lines)}"
    return ""


def inner_loop(function: Function) -> Loop:
    """The loop with the most multiply-adds, of those without another one that multiplies; without any, all of it."""
    whole = Loop(function, function.instructions)

    def work(loop: Loop) -> int:
        return counts(loop.body)["multiply-adds"]

    return max(leaves([loop for loop in loops_of(function) if work(loop)]), key=work, default=whole)


def counts(body: Sequence[Instruction]) -> dict[str, int]:
    """How many instructions are of each kind."""
    found = dict.fromkeys((*KINDS, OTHER), 0)
    for one in body:
        text = re.sub(r"^@\S+ ", "", one.text)
        found[next((kind for kind, pattern in KINDS.items() if pattern.match(text)), OTHER)] += 1
    return found
