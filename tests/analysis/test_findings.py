"""The sources' findings on a machine: they hold, do not hold, or cannot be judged, as the records say."""

from typing import Any

import made_up_records as made
import pytest

from gemmlab._words import number
from gemmlab.analysis import findings
from gemmlab.analysis.groups import Group, devices

Record = dict[str, Any]


def group_of(*records: Record) -> Group:
    return devices(records)[0].groups[0]


class TestFindings:
    @staticmethod
    def judged(*records: Record) -> dict[str, findings.Finding]:
        return {finding.claim: finding for finding in findings.cpu_findings(group_of(*records))}

    @pytest.mark.parametrize(("speed", "holds"), [(50, True), (20, False), (200, False)])
    def test_a_ratio_holds_inside_its_band_only(self, speed: float, holds: bool):
        records = [made.gemm("cpu-blocked", gflop_per_s=speed), made.gemm("cpu-ikj", gflop_per_s=10)]
        finding = self.judged(*records)["cpu-blocked over cpu-ikj, speed-up"]
        assert finding.holds is holds
        assert finding.theirs == "3.5 to 10 times"
        assert finding.ours.startswith(f"{number(speed / 10)} times")
        assert " at N = 2048" in finding.text

    def test_says_on_which_side_it_fails(self):
        slow = [made.gemm("cpu-blocked", gflop_per_s=20), made.gemm("cpu-ikj", gflop_per_s=10)]
        assert "less than the source found" in self.judged(*slow)["cpu-blocked over cpu-ikj, speed-up"].text
        fast = [made.gemm("cpu-blocked", gflop_per_s=200), made.gemm("cpu-ikj", gflop_per_s=10)]
        assert "more than the source found" in self.judged(*fast)["cpu-blocked over cpu-ikj, speed-up"].text

    def test_no_difference_does_not_hold(self):
        records = [made.gemm("cpu-blocked-local", gflop_per_s=10.1), made.gemm("cpu-blocked", gflop_per_s=10)]
        finding = self.judged(*records)["cpu-blocked-local over cpu-blocked, speed-up"]
        assert finding.holds is False
        assert "no difference seen" in finding.text

    @pytest.mark.parametrize(("speed", "holds"), [(140, True), (60, False), (230, False)])
    def test_a_share_of_peak(self, speed: float, holds: bool):
        records = [made.gemm("cpu-blocked-local", gflop_per_s=speed), *made.ceilings(peak=280)]
        assert self.judged(*records)["cpu-blocked-local, share of peak"].holds is holds

    def test_without_a_peak_a_share_cannot_be_judged(self):
        finding = self.judged(made.gemm("cpu-blocked-local"))["cpu-blocked-local, share of peak"]
        assert finding.holds is None
        assert finding.text == "Cannot be judged: no peak was measured in float32 on 2 threads."

    def test_without_mkl_its_findings_cannot_be_judged(self):
        absent = made.not_run("cpu-mkl", "skipped", "MKL is not installed")
        judged = self.judged(made.gemm("cpu-blocked-local"), absent, *made.ceilings())
        assert judged["cpu-mkl, share of peak"].text == "Cannot be judged: cpu-mkl has no time (MKL is not installed)."
        assert judged["cpu-mkl over cpu-blocked-local, speed-up"].holds is None
        assert "cpu-ikj was not measured" in judged["cpu-blocked over cpu-ikj, speed-up"].text

    def test_mkl_is_held_against_the_better_blocked_version(self):
        speeds = {"cpu-blocked": 50, "cpu-blocked-local": 40, "cpu-mkl": 100}
        judged = self.judged(*(made.gemm(name, gflop_per_s=speed) for name, speed in speeds.items()))
        assert judged["cpu-mkl over cpu-blocked, speed-up"].holds is True

    def test_never_on_a_common_problem(self):
        finding = self.judged(made.gemm("cpu-blocked", 512), made.gemm("cpu-ikj", 256))
        assert "were not timed on the same problem" in finding["cpu-blocked over cpu-ikj, speed-up"].text

    def test_the_summary_counts(self):
        held = findings.Finding("", "", "", "", True, "")
        unknown = findings.Finding("", "", "", "", None, "")
        assert findings.summary([held, held, unknown]) == (
            "Of 3 findings of the source, 2 held here and 1 could not be judged."
        )

    def test_other_backends_do_not_concern_the_source(self):
        assert findings.concerns(group_of(made.gemm("cpu-ikj")))
        assert not findings.concerns(group_of(made.gemm("opencl-local")))
