"""What forms send becomes a value of a type, or a problem at its field."""

from __future__ import annotations

from typing import Any

import pytest

from sagas.console.forms import PREFIX, value_of
from sagas.errors import InvalidRequest, Problem

APPROVAL: dict[str, Any] = {"type": "object", "properties": {"approved": {"type": "boolean"}}, "required": ["approved"]}


@pytest.mark.parametrize(("text", "value"), [("true", True), ("false", False)])
def test_a_boolean_is_true_or_false(text: str, value: bool) -> None:
    assert value_of(APPROVAL, {f"{PREFIX}approved": text}) == {"approved": value}


@pytest.mark.parametrize("text", ["yes", "TRUE", "<script>", "0"])
def test_anything_else_is_no_boolean(text: str) -> None:
    """It was read as a no."""
    with pytest.raises(InvalidRequest) as refused:
        value_of(APPROVAL, {f"{PREFIX}approved": text})
    assert refused.value.problems == (Problem("$.approved", "is not a valid boolean"),)
