"""The figures of the backends by name, each a function from a group of records to a drawing.

Every function returns None where the records have nothing to show in it.
"""

from __future__ import annotations

from gemmlab.report.product_figures import accuracy, layers
from gemmlab.report.roofline_figures import cache_aware, roofline
from gemmlab.report.speed_figures import REFERENCE, speed, speed_up

__all__ = ["REFERENCE", "accuracy", "cache_aware", "layers", "roofline", "speed", "speed_up"]
