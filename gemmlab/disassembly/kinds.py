"""Instructions by kind. An instruction that multiplies with an operand in memory is a multiply-add and a load."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gemmlab.disassembly.code import Instruction

KINDS = (
    "multiply-adds", "additions", "loads", "stores", "broadcasts and shuffles", "moves", "spills", "prefetches",
    "other",
)  # fmt: skip
FUSED = re.compile(r"v?fn?m(add|sub)\w*|fml[as]l?2?|v?pmadd\w+|vpdp\w+|vdpb\w+|tdp\w+|[usb]*mml?a|[us]?dot|mla")
MULTIPLY = re.compile(r"v?mul[ps][sd]|fmul|v?pmul\w+")
ADD = re.compile(r"v?(add|sub)[ps][sd]|fadd|v?padd[bwdq]")
SHUFFLE = re.compile(
    r"v?(p?broadcast\w+|perm\w+|p?shuf\w+|p?unpck?\w+|movddup|mov[hl][lh]ps|insert\w+|extract\w+|palignr)"
    r"|dup|zip\d|uzp\d|trn\d|ext"
)
MOVE = re.compile(r"v?mov\w*|fmov|mov|kmov\w+")
LOAD_ONLY = re.compile(r"(ld[rp1-4]\w*|ldur)")
STORE_ONLY = re.compile(r"(st[rp1-4]\w*|stur)")
ON_STACK = re.compile(r"\[(?:rsp|rbp|sp|x29)\b")


def kinds_of(one: Instruction) -> Iterator[str]:
    """The kinds of an instruction: what it computes, and what it moves."""
    operands = one.operands
    memory = [place for place, operand in enumerate(operands) if " PTR " in operand or operand.strip().startswith("[")]
    name = one.name
    if FUSED.fullmatch(name) or MULTIPLY.fullmatch(name):  # where multiply-adds are not fused, the addition is apart
        yield "multiply-adds"
    elif ADD.fullmatch(name):
        yield "additions"
    elif name.startswith("prefetch") or name == "prfm":
        yield "prefetches"
        return
    elif SHUFFLE.fullmatch(name):
        yield "broadcasts and shuffles"
    elif not memory:
        yield "moves" if MOVE.fullmatch(name) else "other"
    elif not (MOVE.fullmatch(name) or LOAD_ONLY.fullmatch(name) or STORE_ONLY.fullmatch(name)):
        yield "other"
    if not memory or name.startswith("lea"):
        return
    if ON_STACK.search(operands[memory[0]]):
        yield "spills"
    yield "stores" if STORE_ONLY.fullmatch(name) or (MOVE.fullmatch(name) and memory[0] == 0) else "loads"


def counts(body: Sequence[Instruction]) -> dict[str, int]:
    """How many instructions are of each kind."""
    found = dict.fromkeys(KINDS, 0)
    for one in body:
        for kind in kinds_of(one):
            found[kind] += 1
    return found
