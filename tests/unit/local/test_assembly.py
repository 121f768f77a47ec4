"""What ``cdk synth`` wrote, as the local stack reads it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sagas.local.deploy.assembly import read_assembly
from sagas.local.errors import LocalStackError


def assembly(directory: Path, description: str) -> Path:
    """An assembly of one stack."""
    stack = {"type": "aws:cloudformation:stack", "properties": {"templateFile": "Shop.template.json"}}
    (directory / "manifest.json").write_text(json.dumps({"artifacts": {"Shop": stack}}))
    (directory / "Shop.template.json").write_text(json.dumps({"Resources": {}, "Description": description}))
    return directory


def test_a_stack(tmp_path: Path) -> None:
    (stack,) = read_assembly(assembly(tmp_path, "small"), "000000000000", "us-east-1")
    assert (stack.name, stack.template["Description"]) == ("Shop", "small")


def test_a_template_that_cloudformation_would_refuse(tmp_path: Path) -> None:
    """The emulator would not: it is given several templates as one, and so asked for more."""
    with pytest.raises(LocalStackError, match=r"Shop.template.json is 1,0.*bytes; CloudFormation's limit is") as error:
        read_assembly(assembly(tmp_path, "x" * 1_000_000), "000000000000", "us-east-1")
    assert "\n" not in str(error.value)
