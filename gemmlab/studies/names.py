"""A study by its name, and the list of them."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Sequence

from gemmlab._errors import suggestion
from gemmlab.measure.table import WIDTH
from gemmlab.studies.catalogue import STUDIES
from gemmlab.studies.study import Study
from gemmlab.studies.summary import SOURCES


def named(name: str) -> Study:
    """The study of a name; ValueError with similar names for any other."""
    if name in STUDIES:
        return STUDIES[name]
    near = difflib.get_close_matches(name, STUDIES)
    raise ValueError(f"no study is named {name!r}: {suggestion(near, STUDIES)}")


def listing() -> list[dict[str, str]]:
    """Name, source and question of every study."""
    return [{"name": study.name, "source": study.source, "question": study.question} for study in STUDIES.values()]


def listing_text(listed: Sequence[dict[str, str]]) -> str:
    """The same in 80 columns, with the names of the sources below."""
    rows = [(f"{row['name']:<17}{row['source']:<6}", row["question"]) for row in listed]
    rows += [("", "")] + [(f"{letter}  ", title) for letter, title in SOURCES.items()]
    return "\n".join(textwrap.fill(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
                     for head, text in rows)  # fmt: skip
