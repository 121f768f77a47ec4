"""Redact the values of a saga that its type declares as secret."""

from __future__ import annotations

from typing import Any

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.redaction import REQUEST, without
from sagas.engine.read.answers import ErrorView, SagaView


def redacted(view: SagaView, definition: SagaDefinition, result: str) -> SagaView:
    """Return a saga with ``***`` in place of redacted values, in error messages too, and with the paths of these.
    ``result``: the step whose result is the saga's."""
    redaction, secrets, places = definition.redaction, list[str](), list[str]()
    if not redaction.hides:
        return view

    def redact(source: str, data: Any, place: str) -> Any:
        safe, hidden = redaction.view(source, data)
        secrets.extend(hidden)
        if safe != data:
            places.append(place)
        return safe

    view["request"] = redact(REQUEST, view["request"], "$.request")
    for index, step in enumerate(view["steps"]):
        step["result"] = redact(step["name"], step["result"], f"$.steps[{index}].result")
    view["result"] = redact(result, view["result"], "$.result")
    errors: list[ErrorView | None] = [view["error"], *(step["error"] for step in view["steps"])]
    for error in errors:
        if error is not None:
            error["message"] = without(error["message"], secrets)
    if view["progress"] is not None:
        view["progress"]["message"] = without(view["progress"]["message"], secrets)
    if places:
        view["redacted"] = places
    return view
