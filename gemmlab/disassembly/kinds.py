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
# Bytes of a number that is multiplied, by the instruction; and pairs of numbers that one for tiles multiplies.
NUMBER_BYTES = {
    r"vdpbf16ps|vpdpw\w+|v?pmaddwd|v?pmul\w*w|\w+ph": 2, r"vpdpb\w+|v?pmaddubsw": 1, r"\w+ps|v?pmulld": 4,
    r"\w+pd|v?pmul\w+": 8,
}  # fmt: skip
TILE_PRODUCTS = {"tdpbf16ps": 16 * 16 * 32, "tdpfp16ps": 16 * 16 * 32}
TILE_PRODUCTS |= {f"tdpb{kind}d": 16 * 16 * 64 for kind in ("ss", "su", "us", "uu")}
REGISTER_BYTES = {"xmm": 16, "ymm": 32, "zmm": 64}
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


def products_of(one: Instruction) -> int:
    """How many pairs of numbers a multiply-add multiplies: as many as its widest register holds, or its tiles.

    Examples
    --------
    >>> products_of(Instruction(0, "vfmadd231pd ymm0,ymm1,YMMWORD PTR [rcx]", "", None))
    4
    >>> products_of(Instruction(0, "tdpbf16ps tmm0,tmm4,tmm6", "", None))
    8192
    """
    if one.name in TILE_PRODUCTS:
        return TILE_PRODUCTS[one.name]
    if arranged := re.search(r"\bv\d+\.(\d+)[bhsd]\b", one.text):  # of AArch64
        return int(arranged[1])
    width = max((REGISTER_BYTES[name] for name in re.findall(r"\b([xyz]mm)\d", one.text)), default=0)
    each = next((size for name, size in NUMBER_BYTES.items() if re.fullmatch(name, one.name)), 0)
    return max(1, width // each) if each else 1


def counts(body: Sequence[Instruction]) -> dict[str, int]:
    """How many instructions are of each kind."""
    found = dict.fromkeys(KINDS, 0)
    for one in body:
        for kind in kinds_of(one):
            found[kind] += 1
    return found
