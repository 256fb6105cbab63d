"""Damaged versions of a file: other bytes, missing or too many of them, values of another kind or size."""

from __future__ import annotations

import json
import re

ODD = [
    b"null", b"true", b"[]", b"{}", b'""', b"0", b"-1", b"1e999", b"-0.0", b"NaN", b"Infinity", b"9" * 25, b"9" * 400,
    b"1" + b"0" * 5000,
    b"3.5", b'"x"', b'"\\u001b[31m"', b'"\\ud800"', b"[[1]]", b'{"a": 1}', b"[" * 3000 + b"]" * 3000,
    b'{"a":' * 2000 + b"1" + b"}" * 2000,
    b"1000000000000", b"[1, 2]", b'"' + b"long " * 4000 + b'"', b"(1, 2", b"\xff",
]  # fmt: skip
VALUE = re.compile(
    rb'"[^"\n]*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|true|false|null|\[[^\[\]\n]*\]|\{[^{}\n]*\}|\([^()\n]*\)'
)


def mutated(content, rng):
    """One of them, drawn."""
    return [_value, _value, _value, _key, _bytes, _cut, _repeated, _whole][rng.integers(8)](content, rng)


def _value(content, rng):
    """A value as JSON or Python writes it is something else."""
    found = list(VALUE.finditer(content))
    if not found:
        return _bytes(content, rng)
    begin, end = found[rng.integers(len(found))].span()
    return content[:begin] + ODD[rng.integers(len(ODD))] + content[end:]


def _key(content, rng):
    """A member of an object is missing, or has another name."""
    found = list(re.finditer(rb'"(\w+)":', content))
    if not found:
        return _bytes(content, rng)
    begin, end = found[rng.integers(len(found))].span(1)
    return content[:begin] + [b"other", b"", b"__class__", b"\\u0000"][rng.integers(4)] + content[end:]


def _bytes(content, rng):
    """Some bytes are others."""
    damaged = bytearray(content)
    for _ in range(int(rng.integers(1, 6))):
        if damaged:
            damaged[rng.integers(len(damaged))] = rng.integers(256)
    return bytes(damaged)


def _cut(content, rng):
    """The end, the beginning, or something in between is missing."""
    first, last = sorted(rng.integers(0, len(content) + 1, 2))
    return [content[:first], content[last:], content[:first] + content[last:]][rng.integers(3)]


def _repeated(content, rng):
    """A line, or some bytes, are there twice."""
    if rng.integers(2):
        lines = content.splitlines(keepends=True) or [b""]
        return content + lines[rng.integers(len(lines))]
    first, last = sorted(rng.integers(0, len(content) + 1, 2))
    return content[:last] + content[first:]


def _whole(content, rng):
    """Something else, instead of it or after it."""
    version = json.dumps({"version": 1}).encode()
    other = [*ODD, b"", b"\n", b"\0" * 100, b"\xef\xbb\xbf" + content, version, b"\xff" * 64]
    return [b"", content][rng.integers(2)] + other[rng.integers(len(other))]
