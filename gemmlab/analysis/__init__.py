"""What records say: groups that can be compared, limits, verdicts and findings. Nothing here measures or draws.

    formatting.py   numbers, times, sizes and lists as text
    groups.py       records sorted by device, number type, threads and transfers
    attainable.py   what the measured ceilings allow a product to reach
    advice.py       what would make a backend faster
    verdicts.py     how fast each backend is and what limits it, in sentences
    cases.py        products that somebody listed, a verdict each
    summary.py      the report in a terminal: answers and a table of the backends
    findings.py     the figures of the source report beside this machine's

The report, the studies and the pytest plugin all use these modules. Times are compared by the rules of
`gemmlab.measure.comparison`, and the roofline model is that of `gemmlab.roofline.model`.
"""
