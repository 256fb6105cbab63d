"""The experiments of the source documents, run again here, with their figures beside ours.

    study.py                what a study is
    catalogue.py            all of them, as data, and by their names
    engine.py               runs one: measures, judges, draws, writes
    isolated.py             samples that each need a new process
      cold_start.py         the first call: from source, from disk, loaded
      memory_modes.py       the ways to bring operands to a device
      gpp.py                the GPP contest, from loops to a product
      postings.py           methods and grains that intersect posting lists
      pair_counts.py        all pairs of lists, by bits and by a sparse product
    scale/                  several backends on one product
    rungs/                  the ideas of one rung, the schemes of emulated products
    cache_model.py          the rungs' traffic models against simulated caches; times nothing
    curves.py               records as lines and speed-ups
    judges.py               whether a finding holds here, with figures and the reason
    summary.py              a study as text, and the list of them
    speed_up_figure.py      a study as a figure

What is drawn or judged comes from records alone.
"""

from typing import TYPE_CHECKING

from gemmlab._process.importing import names_on_first_use

if TYPE_CHECKING:
    from gemmlab.studies.catalogue import STUDIES, listing, named
    from gemmlab.studies.engine import Options, Outcome, conclude, run
    from gemmlab.studies.study import Study
    from gemmlab.studies.summary import listing_text

__all__ = ["STUDIES", "Options", "Outcome", "Study", "conclude", "listing", "listing_text", "named", "run"]

__getattr__ = names_on_first_use(__name__, {
    "catalogue": ("STUDIES", "listing", "named"),
    "engine": ("Options", "Outcome", "conclude", "run"),
    "study": ("Study",),
    "summary": ("listing_text",),
})
