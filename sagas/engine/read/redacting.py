"""Redacts what readers see of a saga: values by their places, and texts that quote values."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from sagas.authoring.redaction import REQUEST, Redaction
from sagas.core.events import CODE_GONE, FACTS, HUNG, LOST, Failure
from sagas.core.states import SagaState, SagaStatus
from sagas.engine.read.answers import LeftOutView, SagaView
from sagas.errors import TypeChanged
from sagas.paths import Place, parse_path
from sagas.spellings import Secrets
from sagas.store.journal.entries import RESULTS, Entry

_TEXTS = ("message", "stack_trace")
_OWN_FAILURES = (CODE_GONE, TypeChanged.__name__)
"""The types of failures that only the library reports under these names."""


def hidden_by_source(entries: Iterable[Entry]) -> dict[str, list[Place]]:
    """Return the paths of the values that the entries hide, by ``request`` or name of a step."""
    hidden = dict[str, list[Place]]()
    for entry in entries:
        if entry.hidden:
            hidden.setdefault(entry.step or REQUEST, []).extend(entry.hidden)
    return hidden


def start_shown(details: Mapping[str, Any], redaction: Redaction) -> Mapping[str, Any]:
    """Return the details of a first entry, without the label if the deployed type hides a search key of the saga."""
    paths: Iterable[str] = details.get("found_by", {}).values()
    if any(redaction.hides(REQUEST, parse_path(path)) for path in paths):
        return {name: value for name, value in details.items() if name != "label"}
    return details


def without_labels(view: SagaView) -> SagaView:
    """Return a saga without what its request and its key would tell callers that may not read sagas."""
    view.update(label=None, key=None)
    for step in view["steps"]:
        for failure in step["children"]["failures"] if "children" in step else ():
            failure["label"] = None
    return view


class Texts(Struct, frozen=True, dict=True):
    """Shows the texts that the code of a saga wrote: errors, traces, progress, and the messages of ``NotYet``.

    They were redacted when they were written, under the type of that time. If the deployed type hides more, its values
    are searched for. Where the values are not at hand, such a text is not shown.

    Args:
        redaction: the redaction of the deployed type.
        values: the hidden values of the saga; ``None`` if they are not at hand.
    """

    redaction: Redaction
    values: Sequence[str] | None = None

    @classmethod
    def of(cls, entries: Sequence[Entry], left_out: Iterable[LeftOutView], redaction: Redaction) -> Texts:
        """Return what shows the texts of a saga with these entries, without the payloads that were left out."""
        missing = {value["entry"] for value in left_out}
        hidden = hidden_by_source(entries)
        values = list[str]()
        for entry in entries:
            source = entry.step or REQUEST
            places = hidden.get(source, ())
            if not places and source not in redaction.hidden:
                continue
            if entry.payload is not None and (entry.step is None or entry.action in RESULTS):
                values += redaction.view(source, json.loads(entry.payload), places)[1]
            elif entry.seq in missing:
                return cls(redaction)
        return cls(redaction, values)

    def entry(self, entry: Entry) -> Entry:
        """Return an entry with the texts that may be shown."""
        details = entry.details
        if entry.seq == 1:
            return replace(entry, details=dict(start_shown(details, self.redaction)))
        error: Mapping[str, Any] = details.get("error") or {}
        if not _by_code(entry, error):
            return entry
        mark = str(details.get("redacted_by", ""))
        shown: dict[str, Any] = {name: self._shown(str(details[name]), mark) for name in _TEXTS if name in details}
        if error:
            shown["error"] = {**error, "message": self._shown(str(error.get("message", "")), mark)}
        return replace(entry, details={**details, **shown}) if shown else entry

    def state(self, state: SagaState) -> SagaState:
        """Return a saga with the texts that may be shown."""
        if (progress := state.progress) is not None:
            message = self._shown(progress.message, progress.redacted_by)
            state = replace(state, progress=replace(progress, message=message))
        if (polling := state.polling) is not None:
            message = self._shown(polling.message, polling.redacted_by)
            state = replace(state, polling=replace(polling, message=message))
        return state

    @cached_property
    def _secrets(self) -> Secrets:
        return Secrets(self.values or ())

    def _shown(self, text: str, mark: str) -> str:
        if self.values is not None:
            return self._secrets.without(text)
        if not text or self.redaction.covers(mark):
            return text
        return f"hidden: release {self.redaction.version} hides values of this saga"


def _by_code(entry: Entry, error: Mapping[str, Any]) -> bool:
    """Whether the texts of an entry may be the author's. Those of the library quote no values."""
    fact = FACTS.get(entry.action)
    if fact is None or fact.why is not None or entry.actor != "worker":
        return False
    if entry.details.get("because") or entry.details.get("settling"):  # no code was called
        return False
    lost = Failure(str(error.get("type")), str(error.get("message"))) in (LOST, HUNG)
    return "stack_trace" in entry.details or not (lost or error.get("type") in _OWN_FAILURES)


def redacted(
    view: SagaView, state: SagaState, entries: Sequence[Entry], redaction: Redaction, purged: Collection[str] = ()
) -> SagaView:
    """Return a saga with ``***`` in place of hidden values, and with a list of their paths.

    Two sources say what is hidden: a value's entry, for the code that wrote it, and the deployed type. ``purged``: for
    a purged saga, ``request`` and the steps whose values had hidden parts.
    """
    stored = hidden_by_source(entries)
    places = list[str]()
    if not (stored or redaction.hidden or purged):
        return view

    def redact(source: str, data: Any, place: str) -> Any:
        safe, _ = redaction.view(source, data, stored.get(source, ()))
        if safe != data or source in purged:
            places.append(place)
        return safe

    view["request"] = redact(REQUEST, view["request"], "$.request")
    for index, step in enumerate(view["steps"]):
        step["result"] = redact(step["name"], step["result"], f"$.steps[{index}].result")
    if state.status is SagaStatus.COMPLETED:
        view["result"] = redact(state.result_step.name, view["result"], "$.result")
    if places:
        view["redacted"] = places
    return view
