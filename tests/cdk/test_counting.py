"""What a saga type's functions may do beyond their work when its failures are counted."""

from __future__ import annotations

import json

import pytest

from sagas import AutoDisable
from sagas.authoring.definition.definition import definition_of
from sagas.engine.registry import Registry
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, of_type, service, statements
from tests.cdk.saga_classes import Counted, Trip


def counting_roles(template: Template) -> int:
    """How many roles may look for the last sagas of a type that ended."""
    return len({role for role, statement in statements(template) if "index/ended" in json.dumps(statement)})


def test_only_functions_that_count_failures_may_look_for_a_success(plain: Template) -> None:
    """Besides the API, the supervisor and what works for it, which list ended sagas anyway."""
    assert counting_roles(plain) == 3
    assert counting_roles(service(Trip, Counted)) == 3 + len(definition_of(Counted).steps)


def test_the_default_of_a_service_holds_for_types_that_declare_none() -> None:
    usual = AutoDisable(threshold=7, cooldown=None)
    template = service(Trip, Counted, auto_disable=usual)
    assert counting_roles(template) == 3 + len(definition_of(Trip).steps) + len(definition_of(Counted).steps)
    alarms = json.dumps(of_type(template, "AWS::CloudWatch::Alarm"))
    assert alarms.count("keeps failing, so its starts are paused") == 2
    functions = of_type(template, "AWS::Lambda::Function")
    given = [one["Environment"]["Variables"] for one in functions if "Environment" in one]
    assert {one["SAGAS_AUTO_DISABLE"] for one in given if "SAGAS_TABLE" in one} == {usual.text}
    names = json.dumps([f"{one.__module__}:{one.__qualname__}" for one in (Trip, Counted)])
    registry = Registry.load(names, AutoDisable.parse(usual.text))
    assert registry.get("trip").definition.auto_disable == usual
    assert registry.get("counted").definition.auto_disable == AutoDisable()


def test_a_default_that_is_none_is_refused() -> None:
    with pytest.raises(DefinitionError, match="auto_disable must be an AutoDisable or None, not 5"):
        service(auto_disable=5)
