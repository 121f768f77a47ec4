"""Policy checks: cdk-nag and cfn-lint find nothing in what options make of the templates."""

from __future__ import annotations

import json

import pytest

from tests.cdk.rendered import REGIONS, lint
from tests.cdk.templates import APPS, synthesized

pytestmark = pytest.mark.slow

NO_SNAPSHOTS = "'SnapStart' enabled functions are not supported in ['cn-north-1', 'us-gov-west-1']"
"""What cfn-lint says of an option that only some regions have."""


@pytest.mark.parametrize("name", [name for name in APPS if name != "plain"])
def test_they_find_nothing(name: str) -> None:
    """cdk-nag has checked the app when it was synthesized. The reference stack has all that the plain one has."""
    # W3045: how the CDK lets S3 write access logs, to the bucket of the app.
    found = lint(*synthesized(name).glob("*.template.json"), regions=REGIONS, ignored=["W3045"])
    assert [finding for finding in found if NO_SNAPSHOTS not in finding] == []


def test_cdk_nag_finds_fault_with_an_api_of_others_alone() -> None:
    findings = json.dumps(json.loads((synthesized("mounted") / "validation-report.json").read_text()))
    assert "Existing/Mine" in findings
    assert "Existing/Shop/" not in findings
    assert "/orders/" not in findings
