"""Measuring: from a shape to a record.

    problems.py      what is measured: shape suites, a user's .npy files, the operands
    session.py       all backends at all cases, in turns           Session.measure -> records
      entrant.py     one backend in it: its process, its pace
      run.py         that backend at one case: its turns, its record
      turn.py        a while in which it is timed, and whether the machine was calm
      process.py     the worker as its parent sees it: asked, suspended, ended
      worker.py      the worker: one backend in one process, timed and checked
      product.py     what it times: operands in host memory, or on a device
      prober.py      the same piece of work around every turn: has the machine changed?
    statistics.py    what the samples say; noise.py: how far they can be believed, and what disturbed them
    environment.py   the machine and the software behind a number
    records.py       records as lines of JSON, whole files or none
    table.py         records as plain text
    comparison.py    two runs beside each other: ratios with intervals, and whether a difference was seen
    comparison_table.py           the same as plain text

A backend is never timed in the process that asks, nor beside another: libraries that share a process share
its threads. A product that is wrong is never timed. Records are described in `docs/records.md`.
"""

from gemmlab.measure.comparison import compare
from gemmlab.measure.environment import environment
from gemmlab.measure.noise import NOISY_PERCENT
from gemmlab.measure.problems import SUITES, Case, from_files, layers, operands, sized, squares
from gemmlab.measure.records import RecordFile, complete, read, write
from gemmlab.measure.session import Session
from gemmlab.measure.statistics import summarise
from gemmlab.measure.table import Column, gemm_table, text_table

__all__ = [
    "NOISY_PERCENT",
    "SUITES",
    "Case",
    "Column",
    "RecordFile",
    "Session",
    "compare",
    "complete",
    "environment",
    "from_files",
    "gemm_table",
    "layers",
    "operands",
    "read",
    "sized",
    "squares",
    "summarise",
    "text_table",
    "write",
]
