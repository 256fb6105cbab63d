"""Measuring: from a shape to a record.

    problems.py      what is measured: shape suites, a user's .npy files, the operands
    case_file.py     products from a CSV file of theirs
    session.py       all backends at all cases, in rounds           Session.measure -> records
    measurement.py   one backend at one case: its rounds, its record
    isolated/        one backend in a separate process, timed and checked there
    noise.py         statistics of the samples, and how far they can be trusted
    flat.py          records as rows of a CSV file
    environment.py   the machine and the software behind a number
    records.py       records as lines of JSON, whole files or none
    schema.py        the keys of a record, and what each value may be
    table.py         records as plain text
    comparison.py    two runs compared: ratios with intervals, and whether a difference was seen
    comparison_table.py    a comparison as plain text

A backend is never timed in the process that asks, nor while another runs: libraries in one process share its threads.
A wrong product is never timed. Records are described in `docs/records.md`.
"""

from typing import TYPE_CHECKING

from gemmlab._process.importing import names_on_first_use

if TYPE_CHECKING:
    from gemmlab.measure.comparison import compare
    from gemmlab.measure.noise import NOISY_PERCENT, summarise
    from gemmlab.measure.problems import SUITES, Case, from_files, layers, operands, sized, squares
    from gemmlab.measure.records import RecordFile, complete, read, write
    from gemmlab.measure.session import Session, Settings
    from gemmlab.measure.table import Column, gemm_table, text_table

__all__ = [
    "NOISY_PERCENT", "SUITES", "Case", "Column", "RecordFile", "Session", "Settings", "compare", "complete",
    "from_files", "gemm_table", "layers", "operands", "read", "sized", "squares", "summarise", "text_table", "write",
]  # fmt: skip

__getattr__ = names_on_first_use(__name__, {
    "comparison": ("compare",),
    "noise": ("NOISY_PERCENT", "summarise"),
    "problems": ("SUITES", "Case", "from_files", "layers", "operands", "sized", "squares"),
    "records": ("RecordFile", "complete", "read", "write"),
    "session": ("Session", "Settings"),
    "table": ("Column", "gemm_table", "text_table"),
})
