"""Redacts a saga's secret values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from sagas.authoring.redaction import REQUEST, Redaction, without
from sagas.core.states import SagaState, SagaStatus
from sagas.engine.read.answers import SagaView
from sagas.paths import Place
from sagas.store.journal.entries import Entry


def hidden_by_source(entries: Iterable[Entry]) -> dict[str, list[Place]]:
    """Return the paths of the values that the entries hide, by ``request`` or name of a step."""
    hidden = dict[str, list[Place]]()
    for entry in entries:
        if entry.hidden:
            hidden.setdefault(entry.step or REQUEST, []).extend(entry.hidden)
    return hidden


def redacted(
    view: SagaView, state: SagaState, entries: Sequence[Entry], redaction: Redaction, purged: Collection[str] = ()
) -> SagaView:
    """Return a saga with ``***`` in place of hidden values, also in error messages, and with a list of their paths.

    Two sources say what is hidden: a value's entry, for the code that wrote it, and the deployed type. ``purged``: for
    a purged saga, ``request`` and the steps whose values had hidden parts.
    """
    stored, secrets, places = hidden_by_source(entries), list[str](), list[str]()
    if not (stored or redaction.hidden or purged):
        return view

    def redact(source: str, data: Any, place: str) -> Any:
        safe, hidden = redaction.view(source, data, stored.get(source, ()))
        secrets.extend(hidden)
        if safe != data or source in purged:
            places.append(place)
        return safe

    view["request"] = redact(REQUEST, view["request"], "$.request")
    for index, step in enumerate(view["steps"]):
        step["result"] = redact(step["name"], step["result"], f"$.steps[{index}].result")
    if state.status is SagaStatus.COMPLETED:
        view["result"] = redact(state.result_step.name, view["result"], "$.result")
    texts = (view["error"], view["progress"], *(step["error"] for step in view["steps"]))
    for text in texts:
        if text is not None:
            text["message"] = without(text["message"], secrets)
    if places:
        view["redacted"] = places
    return view
