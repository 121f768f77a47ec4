"""Templates to assert on, each synthesized once."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import pytest

from sagas.node import use_bundled_node

use_bundled_node()
# An asset stays where it was built: each app would copy the thirty megabytes of the layer into its output.
os.environ["CDK_CONTEXT_JSON"] = json.dumps({"aws:cdk:disable-asset-staging": True})

Template = dict[str, Any]
Find = Callable[[str], list[Template]]


@pytest.fixture(scope="session")
def template() -> Template:
    """The reference stack's template."""
    return shared("reference", "Sagas")


@pytest.fixture(scope="session")
def of_type(template: Template) -> Find:
    """Finds the properties of all resources of a type, with their logical id under ``@id``."""

    def find(kind: str) -> list[Template]:
        return [
            {**resource.get("Properties", {}), "@id": name, "@resource": resource}
            for name, resource in template["Resources"].items()
            if resource["Type"] == kind
        ]

    return find


@pytest.fixture
def plain() -> Template:
    """The template of a service without options."""
    return shared("plain")


@pytest.fixture
def everything() -> Template:
    """The template of a service with all options that go together, and with every part."""
    return shared("everything")


@pytest.fixture
def guarded() -> Template:
    """The template of a service with a network, a private API and keys of its own."""
    return shared("network_and_key")


def shared(name: str, stack: str = "Test") -> Template:
    """A template of one of the apps that all tests share."""
    from tests.cdk.templates import template

    return template(name, stack)
