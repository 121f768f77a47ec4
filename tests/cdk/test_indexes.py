"""The indexes of the control table."""

from __future__ import annotations

import pytest
from aws_cdk import App, Stack

from sagas.cdk import SagaService
from sagas.errors import DefinitionError
from tests.cdk.rendered import Template, of_type, template_of
from tests.cdk.saga_classes import Trip


def indexes(template: Template) -> set[str]:
    tables = of_type(template, "AWS::DynamoDB::Table")
    return {one["IndexName"] for table in tables for one in table.get("GlobalSecondaryIndexes", ())}


def left_out(index: str) -> Template:
    """The template of a service that makes one of the indexes later."""
    stack = Stack(App(context={"sagas:without-index": index}), "Stack")
    SagaService(stack, "Shop", sagas=[Trip])
    return template_of(stack)


def test_one_can_be_left_for_a_second_deployment(plain: Template) -> None:
    assert indexes(plain) == {"open", "by_name", "attention", "ended"}
    assert indexes(left_out("attention")) == {"open", "by_name", "ended"}


def test_no_other_can() -> None:
    told = "the context sagas:without-index must be one of attention, not 'open'"
    with pytest.raises(DefinitionError, match=told):
        left_out("open")
