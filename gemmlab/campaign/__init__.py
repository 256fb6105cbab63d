"""Measuring a whole machine: its ceilings, and backends at a list of products.

    campaigns.py    what a campaign measures: `Campaign`, and the ones of `gemmlab report` and `gemmlab roofline`
    turns.py        the ceilings, in turns spread over a campaign
    measuring.py    a campaign carried out: ceilings, products, simulated traffic, one record after the other
    last.py         the records of the last report, kept for the course

Records are all that comes of it. `gemmlab.report` and `gemmlab.analysis` read them.
"""

from gemmlab.campaign.campaigns import CAMPAIGNS, Campaign, brief, roofline
from gemmlab.campaign.measuring import carry_out, make_directory, measure

__all__ = ["CAMPAIGNS", "Campaign", "brief", "carry_out", "make_directory", "measure", "roofline"]
