"""A whole saga in process: the real automaton and the author's code, with no AWS and no waiting."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sagas.authoring.codec import decode, encode
from sagas.authoring.definition import SagaDefinition
from sagas.authoring.saga import Saga, definition_of
from sagas.engine.views import audit_view
from sagas.testing.in_process import Failing, InProcessRun

_SAGA_ID = "00000000-0000-7000-8000-000000000000"


class Record(dict[str, Any]):
    """A dict as the API shows it; its keys can be read as attributes as well."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of the saga.

    Args:
        status: its last status, such as ``"COMPLETED"``.
        results: what each step returned that completed, by result name, also if it was undone later.
        error: ``step``, ``type`` and ``message`` of what ended the forward way; ``None`` if nothing did.
        audit: the audit trail, oldest first: ``seq``, ``at``, ``action``, ``step``, ``attempt``, ``status``,
            ``details`` and the rest of what the API shows.
        steps: the last status of each step, by its name.
        in_doubt: names of steps with an execution of unknown outcome.
    """

    status: str
    results: dict[str, Any]
    error: Record | None
    audit: list[Record]
    steps: dict[str, str]
    in_doubt: tuple[str, ...] = ()


def run(
    saga_class: type[Saga[Any]],
    request: object,
    *,
    fail: Mapping[str, Failing] | None = None,
    clients: Mapping[str, Any] | Callable[[str], Any] | None = None,
    saga_id: str = _SAGA_ID,
) -> Outcome:
    """Run a saga to its end, or until it waits for an operator.

    Request and results travel as JSON, as they do in production. Delays between retries are skipped, and no time passes
    while code runs: nothing is late, however long it takes (``fail={"pay": TimedOut("...")}`` plays it). The saga's
    instance comes from ``create()``.

    Args:
        saga_class: the saga.
        request: an instance of its request type.
        fail: what every attempt of a step or undo raises instead of running, by its name.
        clients: what ``ctx.client(service)`` returns: clients by service, or a function such as ``boto3.client``.
        saga_id: the saga's id.

    Raises:
        InvalidRequest: the request is not of its type.
        ValueError: ``fail`` names no step or undo of this saga.
        TypeError: what it says to raise is no exception.
    """
    definition = definition_of(saga_class)
    failing = dict(fail or {})
    _check(definition, failing)
    data = encode(request, definition.request_type)
    decode(data, definition.request_type)
    played = InProcessRun(definition, failing, clients, saga_id, data)
    played.play()
    return _outcome(played)


def _check(definition: SagaDefinition, fail: Mapping[str, object]) -> None:
    undos = [step.undo.name for step in definition.steps if step.undo is not None]
    known = list(dict.fromkeys([*(step.name for step in definition.steps), *undos]))
    for name, failing in fail.items():
        if name not in known:
            raise ValueError(f'fail: {definition.name} has no step or undo "{name}"; it has {", ".join(known)}')
        if not issubclass(failing if isinstance(failing, type) else type(failing), BaseException):
            raise TypeError(f'fail: "{name}" must be an exception or its class, not {failing!r}')


def _outcome(played: InProcessRun) -> Outcome:
    state, error = played.state, played.entries.get(played.state.error_seq)
    seqs = {step.name: step.result_seq for step in state.steps if step.result_seq}
    return Outcome(
        status=state.status.value,
        results={
            step.result: decode(json.loads(played.entries[seqs[step.name]].payload or "null"), step.result_type)
            for step in played.definition.steps
            if step.name in seqs
        },
        error=None if error is None else Record(step=error.step, **error.details["error"]),
        audit=[Record(audit_view(entry)) for entry in played.entries.values()],
        steps={step.name: step.status.value for step in state.steps},
        in_doubt=state.in_doubt,
    )
