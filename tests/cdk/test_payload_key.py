"""A service that encrypts payloads with a key of its own: which functions know it, and what they may do with it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from aws_cdk import App, Stack, assertions
from aws_cdk import aws_kms as kms

from sagas.cdk import Archive, SagaService
from sagas.cdk.compute import functions
from sagas.cdk.compute.layer import Layers, pinned_requirements
from tests.cdk.rendered import as_list, statements
from tests.cdk.saga_classes import Trip

Template = dict[str, Any]


@pytest.fixture(scope="module")
def stack() -> Stack:
    """With an archive. The layer is one without the package, which need not be fetched for this."""
    asked: list[Any] = []

    def layers(*arguments: Any, extras: Any, **options: Any) -> Layers:
        asked.append(extras)
        return Layers(*arguments, **options)

    stack = Stack(App(), "Test")
    key = kms.Key(stack, "Payloads")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(functions, "Layers", layers)
        SagaService(stack, "Shop", sagas=[Trip], payload_key=key, archive=Archive())
    assert asked == [("encryption",)]
    return stack


@pytest.fixture(scope="module")
def template(stack: Stack) -> Template:
    return dict(assertions.Template.from_stack(stack).to_json())


def test_functions_know_it_and_nothing_travels_in_messages(template: Template) -> None:
    found = [one["Properties"] for one in template["Resources"].values() if one["Type"] == "AWS::Lambda::Function"]
    variables = [one["Environment"]["Variables"] for one in found if "Environment" in one]
    engines = [one for one in variables if "SAGAS_TABLE" in one]
    assert len(engines) == 1 + 3
    for one in engines:
        assert "Payloads" in json.dumps(one["SAGAS_PAYLOAD_KEY"])
        assert one["SAGAS_CARRY_INPUTS"] == "0"


def test_they_may_use_it_for_sagas_alone_and_the_archive_may_not(template: Template) -> None:
    allowed: dict[str, list[str]] = {}
    for role, statement in statements(template):
        if any(action.startswith("kms:") for action in as_list(statement["Action"])):
            allowed[role] = as_list(statement["Action"])
            assert statement["Condition"] == {"StringLike": {"kms:EncryptionContext:sagas:id": "*"}}
    assert len(allowed) == 1 + 3
    assert all(actions == ["kms:Decrypt", "kms:GenerateDataKey"] for actions in allowed.values())
    assert not [name for name in allowed if "Archive" in name]


def test_its_layer_has_the_package() -> None:
    project = tomllib.loads((Path(__file__).resolve().parents[2] / "pyproject.toml").read_text())["project"]
    assert [one.partition(">")[0] for one in project["optional-dependencies"]["encryption"]] == ["cryptography"]
    assert not [one for one in pinned_requirements() if one.startswith("cryptography")]
