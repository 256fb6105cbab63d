"""Fail if a test was skipped in every job that had it: python .ci/skipped.py RESULTS.xml ...

No job has a GPU, or a user who is not root: EXPECTED matches their reasons.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree

EXPECTED = r"cudaErrorInsufficientDriver|root may write|copies go straight there"

ran, skipped = set(), {}
for path in sys.argv[1:]:
    for case in ElementTree.parse(path).iter("testcase"):
        name, skip = f"{case.get('classname')}::{case.get('name')}", case.find("skipped")
        if skip is None:
            ran.add(name)
        else:
            skipped[name] = skip.get("message", "")
nowhere = {name: reason for name, reason in skipped.items() if name not in ran}
for name, reason in sorted(nowhere.items()):
    print(f"skipped everywhere: {name}: {reason}")
sys.exit(any(not re.search(EXPECTED, reason) for reason in nowhere.values()))
