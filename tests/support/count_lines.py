"""Count the lines of code in gemmlab/: without blank lines, comments and docstrings.

    python tests/support/count_lines.py [--folders]
"""

from __future__ import annotations

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
C_LIKE = {".h", ".hpp", ".c", ".cpp", ".cl"}
CYTHON = {".pyx", ".pxd"}


def lines_of(path: Path) -> int:
    """The lines of one file on which there is code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix in C_LIKE:
        text = re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)
        return sum(bool(line.strip()) for line in re.sub(r"//.*", "", text).splitlines())
    if path.suffix in CYTHON:
        text = re.sub(r'(?m)^\s*r?"""(?:.|\n)*?"""\s*$', "", text)
        return sum(bool(line.strip()) for line in re.sub(r"(?m)^\s*#.*$", "", text).splitlines())
    docstrings = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)
    }
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER)
    found = {
        line
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type not in nothing
        for line in range(token.start[0], token.end[0] + 1)
    }
    return len(found - docstrings)


def main() -> None:
    """Print the sum, and with --folders that of each folder."""
    listed = subprocess.run(["git", "ls-files", "gemmlab"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [Path(name) for name in listed.stdout.splitlines()]
    counts: Counter[str] = Counter()
    for path in paths:
        if path.suffix in C_LIKE | CYTHON | {".py", ".pyi"}:
            counts[str(path.parent)] += lines_of(ROOT / path)
    if "--folders" in sys.argv[1:]:
        for folder, count in sorted(counts.items()):
            print(f"{count:6} {folder}")
    print(sum(counts.values()))


if __name__ == "__main__":
    main()
