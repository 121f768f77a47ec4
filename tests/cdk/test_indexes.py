"""The indexes of the control table."""

from __future__ import annotations

from typing import Any

import pytest
from aws_cdk import App, Stack
from aws_cdk.assertions import Template

from functions.checkout import Checkout
from sagas.cdk import SagaService
from sagas.errors import DefinitionError


def indexes(**context: Any) -> set[str]:
    stack = Stack(App(context=context), "Stack")
    SagaService(stack, "Shop", sagas=[Checkout])
    tables = Template.from_stack(stack).find_resources("AWS::DynamoDB::Table").values()
    return {one["IndexName"] for table in tables for one in table["Properties"].get("GlobalSecondaryIndexes", ())}


def test_one_can_be_left_for_a_second_deployment() -> None:
    assert indexes() == {"open", "by_name", "attention", "ended"}
    assert indexes(**{"sagas:without-index": "attention"}) == {"open", "by_name", "ended"}


def test_no_other_can() -> None:
    told = "the context sagas:without-index must be one of attention, not 'open'"
    with pytest.raises(DefinitionError, match=told):
        indexes(**{"sagas:without-index": "open"})
