"""A page that needs no other file, and no network: its data and its scripts are in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader

from gemmlab.course.rungs import Rung


def page_of(kind: str, rung: Rung, data: Mapping[str, Any], scripts: Sequence[str], **texts: Any) -> str:
    """The page of a rung out of a template, "cpu" or "gpu"."""
    loader = PackageLoader("gemmlab.course", "play")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.get_template(f"{kind}.html").render(
        name=rung.title, page=f"{rung.page}.html", summary=f"{rung.summary}.",
        data=json.dumps(data, separators=(",", ":")).replace("</", "<\\/"),
        scripts=[loader.get_source(environment, f"{name}.js")[0] for name in scripts], **texts,
    )  # fmt: skip
