"""The functions of a shared library and their instructions, as GNU objdump or llvm-objdump lists them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gemmlab._errors import GemmlabError

DISASSEMBLERS = ("objdump", "llvm-objdump")
HEAD = re.compile(r"^([0-9a-f]+) <(.*)>:$")
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(\S.*?)\s*$")
SOURCE = re.compile(r"^(\S+):(\d+)(?: \(discriminator \d+\))?$")
JUMP = re.compile(r"^(?:j\w+|b(?:\.\w+)?|cbn?z|tbn?z)\b.*?\b(?:0x)?([0-9a-f]+) <")


class NoDisassembler(GemmlabError, RuntimeError):
    """There is no program here that lists machine code; the message is one line."""


@dataclass(frozen=True)
class Instruction:
    """One instruction, without what objdump adds; `source` is "file:line", "" where the build has no such lines."""

    address: int
    text: str
    source: str
    jumps_to: int | None

    @property
    def name(self) -> str:
        """The mnemonic."""
        return self.text.partition(" ")[0]

    @property
    def operands(self) -> list[str]:
        """The operands, the target first, as Intel and ARM write them."""
        return re.split(r",(?![^\[{]*[\]}])", self.text.partition(" ")[2].strip())


@dataclass(frozen=True)
class Function:
    """A function: its name as in the source, and its instructions in order."""

    name: str
    instructions: Sequence[Instruction]

    def holds(self, address: int) -> bool:
        """Whether an address lies in it."""
        return self.instructions[0].address <= address <= self.instructions[-1].address


def functions_of(library: Path) -> list[Function]:
    """All functions of a library.

    Raises
    ------
    NoDisassembler
        Where there is none; the message names the package.
    """
    program = next(filter(None, map(shutil.which, DISASSEMBLERS)), None)
    if program is None:
        raise NoDisassembler("there is no disassembler here: install binutils (apt install binutils)")
    command = [program, "--disassemble", "--demangle", "--line-numbers", "--no-show-raw-insn"]
    intel = [] if _is_arm(library) else ["-M", "intel"]
    done = subprocess.run([*command, *intel, str(library)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise NoDisassembler(f"{program} cannot read {library.name}: {done.stderr.strip().splitlines()[-1]}")
    return list(_functions(done.stdout.splitlines()))


def _is_arm(library: Path) -> bool:
    with library.open("rb") as file:
        return file.read(20)[18:20] == b"\xb7\x00"  # e_machine of ELF


def _functions(lines: Sequence[str]) -> Iterator[Function]:
    found: list[Instruction] = []
    name, source = "", ""
    for line in lines:
        if head := HEAD.match(line):
            if found:
                yield Function(name, found)
            name, found, source = head[2], [], ""
        elif at := SOURCE.match(line):
            source = f"{Path(at[1]).name}:{at[2]}"
        elif one := LINE.match(line):
            found.append(_instruction(int(one[1], 16), one[2], source))
    if found:
        yield Function(name, found)


def _instruction(address: int, text: str, source: str) -> Instruction:
    jump = JUMP.match(text)
    plain = re.sub(r"\s*(?:<.*>|#.*|//.*)$", "", re.sub(r"\s+", " ", text)).strip()
    return Instruction(address, plain, source, int(jump[1], 16) if jump else None)
