"""A service of many saga types: 60 of 8 steps each by ``make proof``, some of them in the gate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack, Validations
from cdk_nag import AwsSolutionsChecks, ServerlessChecks

from sagas.cdk import SagaService, permissions
from sagas.local.assembly import read_assembly
from sagas.local.layout import layouts_in
from tests.e2e.nested.many import SAGAS, STEPS

Template = dict[str, Any]
TYPES = 60 if os.environ.get("SAGAS_PROOF") == "full" else 4


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The assembly, looked through by cdk-nag."""
    directory = tmp_path_factory.mktemp("many")
    with pytest.MonkeyPatch.context() as patch:
        # So that fewer queues, too, are more than a role can name.
        patch.setattr(permissions, "_MOST_NAMED", min(150, TYPES * STEPS - 1))
        app = App(outdir=str(directory))
        Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
        SagaService(Stack(app, "Many"), "Sagas", sagas=SAGAS[:TYPES], nested_stacks=True)
        app.synth()
    return directory


def test_every_template_keeps_to_the_limits(many: Path) -> None:
    paths = list(many.glob("*.template.json"))
    assert len(paths) == 1 + TYPES
    for path in paths:
        template = json.loads(path.read_text())
        assert path.stat().st_size < 1_000_000
        for section, most in (("Resources", 500), ("Outputs", 200), ("Parameters", 200)):
            assert len(template.get(section, {})) < most
        for one in template["Resources"].values():
            if one["Type"] == "AWS::IAM::ManagedPolicy":
                raise AssertionError("one policy a role has room for all")


def test_every_step_has_a_queue(many: Path) -> None:
    (places,) = layouts_in(many).values()
    assert len([what for what in places if what.startswith("queue of ")]) == TYPES * STEPS


def test_api_and_supervisor_send_to_the_queues_of_this_service_only(many: Path) -> None:
    template = json.loads((many / "Many.template.json").read_text())
    for policy in (one for one in template["Resources"].values() if one["Type"] == "AWS::IAM::Policy"):
        statements: list[Template] = policy["Properties"]["PolicyDocument"]["Statement"]
        sending = [one for one in statements if "sqs:SendMessage" in str(one["Action"])]
        to_steps = [one for one in sending if "BulkQueue" not in json.dumps(one["Resource"])]
        assert [one["Effect"] for one in to_steps] == ["Deny", "Allow"]
        for one in to_steps:
            # The token, which no other service has, follows the pattern.
            assert "AWS::StackId" in json.dumps(one["Resource"])
        assert "*-dead-letters-" in json.dumps(to_steps[0]["Resource"])


def test_the_local_stack_takes_it_for_one(many: Path) -> None:
    (stack,) = read_assembly(many, "000000000000", "us-east-1")
    kinds = [resource["Type"] for resource in stack.template["Resources"].values()]
    assert kinds.count("AWS::SQS::Queue") == TYPES * (STEPS + 1) + 2
    assert kinds.count("AWS::Lambda::Alias") == TYPES * STEPS + 3


def test_cfn_lint_finds_nothing(many: Path) -> None:
    # One saga's template is as the other's.
    nested = sorted(str(path) for path in many.glob("*nested.template.json"))
    templates = [str(many / "Many.template.json"), nested[0]]
    command = [str(Path(sys.executable).parent / "cfn-lint"), "--", *templates]
    linted = subprocess.run(command, capture_output=True, text=True, check=False)
    assert linted.returncode == 0, linted.stdout
