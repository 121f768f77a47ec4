"""What is shown of a saga whose type has values that are not to be shown."""

from __future__ import annotations

from typing import Any

from sagas.authoring.definition.definition import SagaDefinition
from sagas.authoring.redaction import REQUEST, without
from sagas.engine.read.answers import ErrorView, SagaView


def redacted(view: SagaView, definition: SagaDefinition) -> SagaView:
    """Return a saga as it is shown: ``***`` in place of what its type says, in texts too, and where that is."""
    redaction, secrets, places = definition.redaction, list[str](), list[str]()
    if not redaction.hides:
        return view

    def shown(source: str, data: Any, place: str) -> Any:
        found, hidden = redaction.view(source, data)
        secrets.extend(hidden)
        if found != data:
            places.append(place)
        return found

    view["request"] = shown(REQUEST, view["request"], "$.request")
    for index, step in enumerate(view["steps"]):
        step["result"] = shown(step["name"], step["result"], f"$.steps[{index}].result")
    view["result"] = shown(definition.result_step.name, view["result"], "$.result")
    errors: list[ErrorView | None] = [view["error"], *(step["error"] for step in view["steps"])]
    for error in errors:
        if error is not None:
            error["message"] = without(error["message"], secrets)
    if view["progress"] is not None:
        view["progress"]["message"] = without(view["progress"]["message"], secrets)
    if places:
        view["redacted"] = places
    return view
