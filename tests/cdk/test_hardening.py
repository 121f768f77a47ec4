"""The page about hardening lists what cdk-nag's packs find: by default, without each option, and with all of them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack, Validations
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from cdk_nag import (
    AwsSolutionsChecks,
    HIPAASecurityChecks,
    NIST80053R4Checks,
    NIST80053R5Checks,
    PCIDSS321Checks,
    ServerlessChecks,
)

from functions.checkout import Checkout
from sagas.cdk import SagaService
from tests.cdk.templates import WEB_ACL

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

_PAGE = (Path(__file__).parents[2] / "docs/operations/hardening.md").read_text()
_PACKS = {
    "HIPAA.Security": "HIPAA",
    "NIST.800.53.R4": "NIST R4",
    "NIST.800.53.R5": "NIST R5",
    "PCI.DSS.321": "PCI",
}
_TOGETHER = {"reserved_concurrency": {"functions", "function_options"}}
"""Options of the service by what the page calls them, where the names differ."""

Rules = dict[str, set[str]]


def _rows(heading: str) -> dict[str, tuple[set[str], str]]:
    """The rules of the first table after a heading: their packs, and the last column."""
    table = _PAGE[_PAGE.index(heading) :].split("\n\n| rule ", 2)[1].split("\n\n")[0]
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (.+) \|$", table, re.MULTILINE)
    return {rule: (set(packs.split(", ")), text) for rule, packs, text in rows}


def _build(app: App, name: str, left_out: set[str]) -> None:
    """Make the page's service in a stack of its own, without some options."""
    [code] = re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL)
    namespace: dict[str, Any] = {}
    exec(compile(f"from __future__ import annotations\n{code}", "hardening.md", "exec"), namespace)  # noqa: S102 - our own page

    def service(scope: Stack, id: str, **options: Any) -> SagaService:
        assert left_out <= options.keys()
        return SagaService(scope, id, **{key: value for key, value in options.items() if key not in left_out})

    namespace["SagaService"] = service
    stack = Stack(app, name)
    subnets = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
    vpc = ec2.Vpc.from_vpc_attributes(
        stack, "Vpc", vpc_id="vpc-0123456789abcdef0", availability_zones=["a", "b"], private_subnet_ids=subnets
    )
    bucket = s3.Bucket.from_bucket_name(stack, "Logs", "access-logs-of-mine")
    topic = sns.Topic.from_topic_arn(stack, "Alarms", "arn:aws:sns:eu-central-1:123456789012:alarms")
    namespace["hardened"](stack, [Checkout], vpc, bucket, topic, WEB_ACL)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Rules]:
    """The findings about the service by stack: rules, and their packs."""
    directory = tmp_path_factory.mktemp("hardening")
    app = App(outdir=str(directory))
    packs = (AwsSolutionsChecks, ServerlessChecks, HIPAASecurityChecks, NIST80053R4Checks, NIST80053R5Checks)
    Validations.of(app).add_plugins(*(pack(app) for pack in (*packs, PCIDSS321Checks)))
    SagaService(Stack(app, "Plain"), "Service", sagas=[Checkout])
    _build(app, "Hardened", set())
    for option in _options():
        _build(app, f"Without-{option.replace('_', '-')}", _TOGETHER.get(option, {option}))
    with pytest.raises(RuntimeError):
        app.synth()
    report: Any = json.loads((directory / "validation-report.json").read_text())
    findings: dict[str, Rules] = defaultdict(lambda: defaultdict(set))
    for plugin in report["pluginReports"]:
        for violation in plugin["violations"]:
            pack, _, rule = violation["ruleName"].partition("-")
            for construct in violation["violatingConstructs"]:
                stack, within, *_ = construct["constructPath"].split("/")
                if violation["severity"] == "error" and within == "Service":
                    findings[stack][rule].add(_PACKS.get(pack) or str(pack))
    return findings


def _options() -> dict[str, set[str]]:
    """The rules that each option satisfies, as the page says."""
    options: dict[str, set[str]] = defaultdict(set)
    for rule, (_, text) in _rows("# Hardening").items():
        for option in re.findall(r"^`(\w+)=", text):
            options[option].add(rule)
    return options


def test_the_page_lists_all_findings(found: dict[str, Rules]) -> None:
    satisfied, left = _rows("# Hardening"), _rows("## What is left")
    assert found["Hardened"] == {rule: packs for rule, (packs, _) in left.items()}
    assert found["Plain"] == {rule: packs for rule, (packs, _) in (satisfied | left).items()}


def test_each_option_satisfies_the_rules_in_its_row(found: dict[str, Rules]) -> None:
    left = _rows("## What is left").keys()
    without = {option: found[f"Without-{option.replace('_', '-')}"].keys() - left for option in _options()}
    assert without == _options()
