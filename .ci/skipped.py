"""Fail if a test was skipped in every job that had it: python .ci/skipped.py RESULTS.xml ...

No job has a GPU, PyTorch, or a user who is not root: EXPECTED matches their reasons. It is enough if one job skipped a
test for such a reason, since others may lack a package as well.
"""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections import defaultdict

EXPECTED = r"cudaErrorInsufficientDriver|no PyTorch|root may write|copies go straight there"

ran, skipped = set(), defaultdict(set)
for path in sys.argv[1:]:
    for case in ElementTree.parse(path).iter("testcase"):
        module, name, skip = case.get("classname"), case.get("name"), case.find("skipped")
        if skip is None or skip.get("type") == "pytest.xfail":  # which has run
            ran |= {(module, name), ("", module)}
        else:  # a module that is skipped as a whole has its name as the test's
            skipped[module, name].add(f"{skip.get('message')} {skip.text}")
nowhere = {test: reasons for test, reasons in skipped.items() if test not in ran}
unexpected = {test for test, reasons in nowhere.items() if not any(re.search(EXPECTED, why) for why in reasons)}
print(f"{len(nowhere)} tests were skipped in every job, {len(unexpected)} of them for a reason that is not expected")
for module, name in sorted(unexpected):
    print(f"{module}::{name}: {'; '.join(sorted(skipped[module, name]))}")
sys.exit(bool(unexpected))
