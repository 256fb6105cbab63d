"""Configuration of Sphinx for the documentation site: python -m sphinx -W -n docs docs/_build

We use Sphinx with MyST and furo, because MkDocs has had no release since 2024 and its Material theme is only
maintained. All three have BSD or MIT licences, and the pages load nothing from the
network.
"""

from __future__ import annotations

import builtins
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

import building  # noqa: E402
from building import links  # noqa: E402

import gemmlab  # noqa: E402
from gemmlab.course import rungs  # noqa: E402

project = "gemmlab"
author = copyright = "The gemmlab developers"
version = release = gemmlab.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build", "building", "extra"]
myst_enable_extensions = ["attrs_block", "deflist"]
myst_heading_anchors = 3
default_role = "code"
add_module_names = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
napoleon_use_param = napoleon_use_rtype = False
napoleon_custom_sections = [("Attributes", "params_style")]
nitpick_ignore = [("py:exc", name) for name in dir(builtins)]

html_theme = "furo"
html_title = "gemmlab"
html_static_path = ["static", "../gemmlab/course/static"]
html_js_files = [("predict.js", {"defer": "defer"})]
html_extra_path = [building.EXTRA]
(DOCS / building.EXTRA).mkdir(exist_ok=True)  # it is filled after Sphinx has looked for it
html_css_files = ["course.css"]
html_show_sphinx = html_copy_source = False

# The pages of the site by part. The list is here and not in docs/index.md, which is plain text on a code host.
PARTS = {
    "The course": ["ladder", "rungs/index", "lab"],
    **{f"{name} rungs": [f"rungs/{rung.page}" for rung in ladder] for name, ladder in rungs.ladders().items()},
    "Measuring": ["measuring", "measured/README", "measured/avx2", "measured/zen3", "measured/shapes", "measured/tuned",
                  "studies", "records"],
    "Using it": ["commands", "reference/command-line", "reference/python", "promises", "auto", "arrays",
                 "precision/emulated", "precision/tensor", "workloads"],
    "Scale": ["scaling", "scale/devices", "scale/dask", "scale/product"],
    "How it is made": ["architecture", "adding-a-backend"],
}


def read_page(app: Any, name: str, text: list[str]) -> None:
    """Change the links of a page to files into links to pages, and add the table of contents to the first page."""
    text[0] = links.for_the_site(text[0], Path(app.env.doc2path(name)))
    if name == "index":
        for part, pages in PARTS.items():
            text[0] += f"\n```{{toctree}}\n:hidden:\n:caption: {part}\n\n" + "\n".join(pages) + "\n```\n"


def setup(app: Any) -> None:
    """Register the steps of the build: write the generated pages first, then change each page as it is read."""
    app.connect("builder-inited", lambda app: building.write())
    app.connect("source-read", read_page)
