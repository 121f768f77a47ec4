"""A function of the local stack sees the modules that it has in Lambda, and no others."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sagas.imports import PROVIDED, modules_needed
from sagas.local.deploy.assembly import Asset
from sagas.local.emulator.adapt import without_layers
from sagas.local.emulator.shipped import PRELUDE, VARIABLE

PROGRAM = """
import importlib, importlib.util, json, sys
import boto3, msgspec, sagas.testing, xml.dom  # as if another function had been forked from this process
{prelude}
def of(name):
    try:
        importlib.import_module(name)
        return "found"
    except ModuleNotFoundError as error:
        assert importlib.util.find_spec(error.name) is None
        return str(error)
print(json.dumps({{name: of(name) for name in {names}}}))
"""
LAYER = ("msgspec/__init__.py", "msgspec-0.22.0.dist-info/METADATA", "sagas/__init__.py", "sagas/core/__init__.py")


def seen(directory: Path, modules: str | None, names: Iterable[str]) -> dict[str, str]:
    """What becomes of imports in a function's process."""
    (directory / "shop").mkdir()
    (directory / "shop/__init__.py").touch()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(directory), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(prelude=PRELUDE, names=[*names])],
        cwd=directory,
        env=environment if modules is None else environment | {VARIABLE: modules},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow  # test_the_variable_of_a_function fails first if the names are wrong
def test_modules_that_are_hidden(tmp_path: Path) -> None:
    visible = ["shop", "json", "xml.dom", "boto3", "botocore.session", "msgspec", "sagas.core", "sagas.errors"]
    hidden = ["pytest", "sagas.testing", "sagas.local", "hypothesis.strategies", "yaml"]
    found = seen(tmp_path, "msgspec,sagas,sagas.core,sagas.errors", [*visible, *hidden, "nowhere"])
    assert {name: found[name] for name in visible} == dict.fromkeys(visible, "found")
    for name in hidden:
        module = name if name.startswith("sagas") else name.partition(".")[0]
        assert found[name].startswith(f"No module named '{module}': it is here, but not in the layer; add it to")
    assert found["nowhere"] == "No module named 'nowhere'"


@pytest.mark.slow  # a process of its own
def test_without_a_layer_nothing_is_hidden(tmp_path: Path) -> None:
    assert seen(tmp_path, None, ["pytest"]) == {"pytest": "found"}


def template(**metadata: Any) -> dict[str, Any]:
    layer: dict[str, Any] = {"Type": "AWS::Lambda::LayerVersion", "Properties": {"Content": {"S3Key": "layer.zip"}}}
    with_layer: dict[str, Any] = {"Type": "AWS::Lambda::Function", "Properties": {"Layers": [{"Ref": "Layer"}]}}
    imported: dict[str, Any] = {"Type": "AWS::Lambda::Function", "Properties": {"Layers": ["arn:aws:lambda:..."]}}
    return {"Resources": {"Layer": layer | {"Metadata": metadata}, "Ours": with_layer, "Theirs": imported}}


def test_the_variable_of_a_function(tmp_path: Path) -> None:
    for name in LAYER:
        path = tmp_path / "python" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assets = [Asset(tmp_path, zipped=True, bucket="assets", key="layer.zip")]
    changed = without_layers(template(**{PROVIDED: ["weasyprint"]}), assets)["Resources"]
    assert changed.keys() == {"Ours", "Theirs"}
    assert changed["Theirs"]["Properties"] == {}
    named = set(changed["Ours"]["Properties"]["Environment"]["Variables"][VARIABLE].split(","))
    assert {"msgspec", "sagas", "sagas.core", "weasyprint"} <= named
    assert not {"pytest", "sagas.testing", "msgspec._core"} & named


def test_what_packages_need_here_is_visible() -> None:
    """Their requirements can differ by Python's version and by platform. Extras are not among them."""
    assert {"pynamodb", "botocore", "urllib3", "typing_extensions"} <= modules_needed(["pynamodb"])
    assert not {"pytest", "pydantic"} & modules_needed(["pynamodb", "aws_lambda_powertools", "not-installed"])
