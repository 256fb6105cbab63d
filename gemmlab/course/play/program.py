"""A GPU kernel as data: which places of memory its work-items read and write, without the numbers in them.

The kernel's own text is parsed, by pcpp (a preprocessor) and pycparser, both plain Python: a machine that shows the
course may have no compiler. What is left are integers, addresses, accesses, branches, loops and barriers, in nested
lists that `program.js` runs. The rung's parameters stay names in them, so one program serves each of their values.

    number                     an integer                    ["name", NAME]          a parameter, an extent, a stride
    ["get", SLOT]              a variable of the function    ["id", WHICH, AXIS]     get_global_id(0) and the like
    ["op", SIGN, X, Y]         of integers                   ["not" or "neg", X]
    ["if", X, Y, Z]            X ? Y : Z                     ["field", X, 0 or 1]    of a pair of integers
    ["pair"]                   a new one                     ["local", NUMBER]        where a local array begins
    ["call", FUNCTION, PLACE, ARGUMENTS]
    ["read" or "write", "global" or "local", ADDRESS, BYTES, PLACE]
    ["set", SLOT, X]           ["set field", SLOT, 0 or 1, X]
    ["reference", SLOT]        ["refer", X]                  ["set referred", X, Y]  of a variable in a calling function
    ["each", X ...]            one after the other           ["barrier"]             ["return", X]
    ["for", PLACE, X, CONDITION, STEP, BODY]                 ["do", PLACE, BODY, CONDITION]

A PLACE is a number in the order of the text: of two accesses a warp makes the one at the smaller place first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from io import StringIO
from typing import Any, TypeAlias

from pcpp.preprocessor import Preprocessor
from pycparser import c_ast
from pycparser.c_parser import CParser

Code: TypeAlias = Any  # a number, or a list as above
NUMBER_BYTES = 4  # float32
NOTHING: Code = 0
# pycparser knows C's qualifiers alone, so two that no kernel has stand for the kinds of memory.
QUALIFIERS = {"volatile": "global", "restrict": "local"}
WORDS = {
    "__kernel": "", "__global": "volatile", "__local": "restrict", "GROUP": "", "ALIGNED": "",
    "__attribute__(x)": "", "REAL": "float", "INDEX": "int", "CLK_LOCAL_MEM_FENCE": "0",
}  # fmt: skip
VECTORS = {"float2": 2, "float4": 4}
PRELUDE = "".join(f"typedef struct {{ float x; }} {name};\n" for name in VECTORS)
PRELUDE += "typedef struct { int x, y; } int2;\n"
IDS = {f"get_{which}_{what}": f"{which} {what}" for which in ("local", "group", "global") for what in ("id", "size")}
IDS["get_num_groups"] = "groups"


@dataclass(frozen=True)
class Type:
    """What an expression is: an "int", a "number" of a matrix or some of them, a "pair" of ints, or a "pointer".

    `size` are a number's bytes, `to` is what a pointer or an array leads to, `space` where that lies, and `extent`
    the elements of an array.
    """

    kind: str
    size: Code = 0
    to: Type | None = None
    space: str = "private"
    extent: Code = None


INT, PAIR, NUMBER = Type("int"), Type("pair"), Type("number", NUMBER_BYTES)
BASIC = {"int": INT, "long": INT, "int2": PAIR, "float": NUMBER, "void": INT}
BASIC |= {name: Type("number", count * NUMBER_BYTES) for name, count in VECTORS.items()}


def preprocessed(text: str, macros: Mapping[str, int | str]) -> str:
    """The text with these macros, and without what says nothing of accesses."""
    preprocessor = Preprocessor()
    for name, value in {**WORDS, **macros}.items():
        preprocessor.define(f"{name} {value}")
    out = StringIO()
    preprocessor.line_directive = None
    preprocessor.parse(text)
    preprocessor.write(out)
    return "\n".join(line for line in out.getvalue().splitlines() if not line.lstrip().startswith("#"))


def program_of(text: str, macros: Mapping[str, int | str]) -> dict[str, Any]:
    """The program of the kernel `gemm` in a text: its functions, and the bytes of its arrays in local memory."""
    lowering = Program()
    for one in CParser().parse(PRELUDE + preprocessed(text, macros)).ext:
        if isinstance(one, c_ast.Typedef):
            lowering.typedef(one)
        elif isinstance(one, c_ast.FuncDef):
            lowering.function(one)
    return {"functions": lowering.functions, "kernel": lowering.numbers["gemm"], "local": lowering.local}


def op(sign: str, x: Code, y: Code) -> Code:
    """An operation, done at once where both sides are known."""
    if isinstance(x, int) and isinstance(y, int) and sign in ("+", "*"):
        return x + y if sign == "+" else x * y
    if (sign, y) in (("+", 0), ("*", 1)):
        return x
    return y if (sign, x) in (("+", 0), ("*", 1)) else ["op", sign, x, y]


def each(*codes: Code) -> Code:
    """Several effects in their order, without those that do nothing."""
    some = [code for code in codes if isinstance(code, list) and code != ["each"]]
    return some[0] if len(some) == 1 else ["each", *some] if some else NOTHING


def matters(code: Code, first: int) -> bool:
    """Whether anything is left of what a loop does: more than to set variables that begin in it, from a slot on."""
    if not isinstance(code, list) or not code:
        return False
    if code[0] in ("set", "set field"):
        return code[1] < first or any(matters(x, first) for x in code[2:])
    return code[0] in ("read", "write", "barrier", "return", "call", "set referred") or any(
        matters(x, first) for x in code[1:])


class Program:
    """What has been translated so far."""

    def __init__(self) -> None:
        self.types: dict[str, Type] = dict(BASIC)
        self.functions: list[Code] = []
        self.numbers: dict[str, int] = {}  # of functions
        self.results: dict[str, Type] = {}
        self.local: list[Code] = []  # bytes of arrays
        self.places = 0
        self.variables: dict[str, tuple[Type, Code]] = {}  # in sight
        self.slots = 0

    def place(self) -> int:
        """The next place in the text."""
        self.places += 1
        return self.places

    def typedef(self, one: c_ast.Typedef) -> None:
        if one.name not in self.types:
            self.types[one.name] = self.type_of(one.type)

    def type_of(self, node: Any) -> Type:
        """The type that a declaration gives."""
        if isinstance(node, c_ast.TypeDecl):
            return self.types[" ".join(node.type.names)]
        if isinstance(node, c_ast.PtrDecl):
            return Type("pointer", to=self.type_of(node.type), space=self._space(node.type))
        if isinstance(node, c_ast.ArrayDecl):
            extent = self.value(node.dim)[1] if node.dim is not None else NOTHING
            return Type("array", to=self.type_of(node.type), space=self._space(node.type), extent=extent)
        raise NotImplementedError(f"a declaration with {type(node).__name__}")

    def _space(self, node: Any) -> str:
        while isinstance(node, c_ast.ArrayDecl):
            node = node.type
        return next((QUALIFIERS[name] for name in getattr(node, "quals", ()) if name in QUALIFIERS), "private")

    def bytes_of(self, one: Type) -> Code:
        return op("*", one.extent, self.bytes_of(one.to)) if one.kind == "array" and one.to else one.size or 4

    def function(self, node: c_ast.FuncDef) -> None:
        name, declared = node.decl.name, node.decl.type
        self.variables, self.slots = {}, 0
        parameters = [(one.name, self.type_of(one.type)) for one in declared.args.params] if declared.args else []
        if name == "gemm":  # what the kernel is given stands beside its parameters
            for given, kind in parameters:
                self.variables[given] = kind, ["name", given]
            pointers = [(given, kind) for given, kind in parameters if kind.kind == "pointer"]
            begin = each(*(["set", self.declare(given, kind), ["name", given]] for given, kind in pointers))
        else:
            begin = NOTHING
            for given, kind in parameters:
                self.declare(given, kind)
        self.numbers[name], self.results[name] = len(self.functions), self.type_of(declared.type)
        self.functions.append(each(begin, self.statement(node.body)))

    def declare(self, name: str, kind: Type) -> int:
        """A slot for a variable."""
        slot = self.slots
        self.slots += 1
        self.variables[name] = kind, NOTHING if kind.kind == "number" else ["get", slot]
        return slot

    def block(self, *nodes: Any) -> Code:
        """Statements whose variables nothing else sees."""
        outside = dict(self.variables)
        inside = each(*map(self.statement, nodes))
        self.variables = outside
        return inside

    # Statements

    def statement(self, node: Any) -> Code:
        match node:
            case None | c_ast.EmptyStatement():
                return NOTHING
            case c_ast.Compound():
                return self.block(*node.block_items or ())
            case c_ast.DeclList():
                return each(*map(self.statement, node.decls))
            case c_ast.Decl():
                return self.declaration(node)
            case c_ast.If():
                return ["if", self.value(node.cond)[1], self.statement(node.iftrue), self.statement(node.iffalse)]
            case c_ast.For():
                outside, first, place = dict(self.variables), self.slots, self.place()
                begin, condition = self.statement(node.init), self.effect(node.cond)
                body, step = self.statement(node.stmt), self.effect(node.next)
                self.variables = outside
                return ["for", place, begin, condition, step, body] if matters(body, first) else NOTHING
            case c_ast.DoWhile():
                place, body = self.place(), self.statement(node.stmt)
                return ["do", place, body, self.value(node.cond)[1]]
            case c_ast.Return():
                return ["return", NOTHING if node.expr is None else self.value(node.expr)[1]]
            case c_ast.FuncCall() if node.name.name == "barrier":
                return ["barrier"]
        return self.effect(node)

    def declaration(self, node: c_ast.Decl) -> Code:
        kind = self.type_of(node.type)
        if kind.kind == "array" and kind.space == "local":
            self.variables[node.name] = kind, ["local", len(self.local)]
            self.local.append(self.bytes_of(kind))
            return NOTHING
        given = NOTHING if node.init is None else self.effect(node.init)
        slot = self.declare(node.name, kind)
        if kind.kind in ("number", "array"):  # only what is read for it matters
            return each(given)
        return ["set", slot, ["pair"] if kind is PAIR and node.init is None else given]

    # Expressions

    def effect(self, node: Any) -> Code:
        return self.value(node)[1]

    def value(self, node: Any) -> tuple[Type, Code]:
        """The type of an expression, and its code: for numbers of matrices what is read."""
        match node:
            case c_ast.Constant():
                return (NUMBER, NOTHING) if node.type in ("float", "double") else (INT, int(node.value))
            case c_ast.ID():
                return self.variables.get(node.name, (INT, ["name", node.name]))
            case c_ast.Cast():
                return self.type_of(node.to_type.type), self.value(node.expr)[1]
            case c_ast.StructRef():
                return INT, ["field", self.value(node.name)[1], "xy".index(node.field.name)]
            case c_ast.TernaryOp():
                (kind, x), (other, y) = self.value(node.iftrue), self.value(node.iffalse)
                kind = other if kind is INT else kind
                return kind, ["if", self.value(node.cond)[1], x, y]
            case c_ast.ExprList():
                values = [self.value(one) for one in node.exprs]
                return values[-1][0], each(*(code for _, code in values))
            case c_ast.Assignment():
                return self.assignment(node.lvalue, node.op.removesuffix("="), self.value(node.rvalue))
            case c_ast.BinaryOp():
                return self.operation(node)
            case c_ast.UnaryOp():
                return self.unary(node)
            case c_ast.ArrayRef():
                return self.load(self.element(node))
            case c_ast.FuncCall():
                return self.call(node)
        raise NotImplementedError(f"an expression with {type(node).__name__}")

    def operation(self, node: c_ast.BinaryOp) -> tuple[Type, Code]:
        (left, x), (right, y) = self.value(node.left), self.value(node.right)
        if "number" in (left.kind, right.kind):
            return (left if left.kind == "number" else right), each(*(
                code for kind, code in ((left, x), (right, y)) if kind.kind == "number"))  # fmt: skip
        if left.kind in ("pointer", "array"):
            assert left.to is not None
            return Type("pointer", to=left.to, space=left.space), op(node.op, x, op("*", y, self.bytes_of(left.to)))
        return INT, op(node.op, x, y)

    def unary(self, node: c_ast.UnaryOp) -> tuple[Type, Code]:
        if node.op == "*":
            return self.load(self.pointed(node.expr))
        if node.op == "&":
            kind, code = self.value(node.expr)
            if kind is INT:
                return Type("pointer", to=INT), ["reference", code[1]]
            return Type("pointer", to=kind), NOTHING
        if node.op in ("p++", "++", "p--", "--"):
            return self.assignment(node.expr, node.op[-1], (INT, 1))
        kind, code = self.value(node.expr)
        return kind, code if kind.kind == "number" else [{"!": "not", "-": "neg"}[node.op], code]

    def element(self, node: c_ast.ArrayRef) -> tuple[Type, str, Code]:
        """The type of an element, where it lies, and its address."""
        (kind, address), (_, index) = self.address(node.name), self.value(node.subscript)
        assert kind.to is not None
        return kind.to, kind.space, op("+", address, op("*", index, self.bytes_of(kind.to)))

    def address(self, node: Any) -> tuple[Type, Code]:
        """An array or a pointer: of a row of an array of arrays, where it begins."""
        if isinstance(node, c_ast.ArrayRef):
            kind, _, address = self.element(node)
            return kind, address
        return self.value(node)

    def pointed(self, node: Any) -> tuple[Type, str, Code]:
        kind, address = self.value(node)
        assert kind.to is not None
        return kind.to, kind.space, address

    def load(self, place: tuple[Type, str, Code]) -> tuple[Type, Code]:
        """What is read at a place."""
        kind, space, address = place
        if kind.kind == "array":
            return kind, address
        if space == "private":  # registers, but for an integer of the function that called
            return kind, ["refer", address] if kind is INT else NOTHING
        return kind, ["read", space, address, kind.size, self.place()]

    def assignment(self, to: Any, sign: str, given: tuple[Type, Code]) -> tuple[Type, Code]:
        if isinstance(to, c_ast.StructRef):
            kind, code = self.value(to.name)
            return INT, ["set field", code[1], "xy".index(to.field.name), given[1]]
        if isinstance(to, c_ast.ID):
            return self.set_variable(self.variables[to.name], sign, given)
        kind, space, address = self.element(to) if isinstance(to, c_ast.ArrayRef) else self.pointed(to.expr)
        if space == "private":
            return kind, ["set referred", address, given[1]] if kind is INT else each(given[1])
        before = self.load((kind, space, address))[1] if sign else NOTHING
        return kind, each(given[1], before, ["write", space, address, kind.size, self.place()])

    def set_variable(self, variable: tuple[Type, Code], sign: str, given: tuple[Type, Code]) -> tuple[Type, Code]:
        kind, code = variable
        if kind.kind == "number":
            return kind, each(given[1])
        new = given[1]
        if sign:
            new = op(sign, code, op("*", new, self.bytes_of(kind.to)) if kind.kind == "pointer" and kind.to else new)
        return kind, ["set", code[1], new]

    def call(self, node: c_ast.FuncCall) -> tuple[Type, Code]:
        name, arguments = node.name.name, [self.value(one)[1] for one in node.args.exprs]
        if name in IDS:
            return INT, ["id", IDS[name], arguments[0]]
        if name in ("min", "max"):
            x, y = arguments
            return INT, ["op", name, x, y]
        place = self.place()
        return self.results[name], ["call", self.numbers[name], place, arguments]
