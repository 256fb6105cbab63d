"""Products to measure, from a CSV file of theirs: `gemmlab bench --cases FILE`.

    name,m,n,k,batch,dtype,layout
    attention scores,384,384,64,12,float32,CFC
    first layer,64,12544,147,,,

The header names the columns, in any order; m, n and k are needed. An absent column or an empty cell takes the default:
as a name the sizes, one product, the command's dtype, and row-major operands.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from os import PathLike, fspath

from gemmlab._files import check_regular
from gemmlab._words import printable, quoted
from gemmlab.measure.problems import Case, extents
from gemmlab.verify.dtypes import dtype_of

SUITE = "cases"
COLUMNS = ("name", "m", "n", "k", "batch", "dtype", "layout")
NEEDED = ("m", "n", "k")
MOST = 10**9


def read_cases(path: str | PathLike[str], dtype: str = "float32") -> list[Case]:
    """The products that a CSV file lists, in its order, with its names.

    Parameters
    ----------
    path : path
        A text file in UTF-8.
    dtype : str
        The dtype of products that name none.

    Raises
    ------
    OSError
        If the file cannot be read.
    ValueError
        For a line that cannot be a product: the file, the line's number, and what is wrong.

    Examples
    --------
    >>> from tempfile import NamedTemporaryFile
    >>> with NamedTemporaryFile("w", suffix=".csv") as file:
    ...     _ = file.write("name,m,n,k\\nlayer,64,3136,576\\n")
    ...     file.flush()
    ...     [(case.label, case.m, case.n, case.k) for case in read_cases(file.name)]
    [('layer', 64, 3136, 576)]
    """
    check_regular(fspath(path))
    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file, strict=True)
        try:
            header = _header(next(rows, []))
            found = []
            for cells in rows:
                if any(cell.strip() for cell in cells):
                    found.append(_case(_row(header, cells), dtype))
        except UnicodeDecodeError:
            raise ValueError(f"{printable(fspath(path))} is not a text in UTF-8") from None
        except (ValueError, csv.Error) as error:
            raise ValueError(f"{printable(fspath(path))}, line {max(1, rows.line_num)}: {error}") from None
    if not found:
        raise ValueError(f"{printable(fspath(path))} has no product below its header")
    return found


def _header(cells: list[str]) -> list[str]:
    """The columns' names, checked."""
    header = [cell.strip().lower() for cell in cells]
    if missing := [name for name in NEEDED if name not in header]:
        raise ValueError(f"the header has no column {', '.join(missing)}; a header is {','.join(COLUMNS)}")
    if unknown := [name for name in header if name not in COLUMNS]:
        raise ValueError(f"no column is called {quoted(unknown[0])}; a header is {','.join(COLUMNS)}")
    if len(set(header)) < len(header):
        raise ValueError("a column stands twice in the header")
    return header


def _row(header: list[str], cells: list[str]) -> dict[str, str]:
    if len(cells) > len(header):
        raise ValueError(f"{len(cells)} cells below {len(header)} columns; a name with a comma wants quotation marks")
    return {name: cell.strip() for name, cell in zip(header, cells, strict=False) if cell.strip()}


def _case(row: Mapping[str, str], dtype: str) -> Case:
    if missing := [name for name in NEEDED if name not in row]:
        raise ValueError(f"{', '.join(missing)} is missing")
    m, n, k, batch = (_extent(name, row.get(name, "1")) for name in (*NEEDED, "batch"))
    named = row.get("dtype", dtype).lower()
    dtype_of(named)  # raises ValueError
    return Case(
        SUITE, row.get("name") or extents(batch, m, n, k), m, n, k, named,
        layout=row.get("layout", "CCC").upper(), batch=batch,
    )  # fmt: skip


def _extent(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST):
        raise ValueError(f"{name} must be an integer of at least 1, not {quoted(text)}")
    return int(text)
