"""The API's routes about sagas: start them, read them, and act on them as an operator."""

from __future__ import annotations

import json
import os
import re
from hashlib import sha256
from typing import Any

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from sagas.core.states import SagaState, SagaStatus
from sagas.engine.engine import Engine
from sagas.engine.read.answers import AuditPage, Page, SagaView
from sagas.engine.read.reader import Reader
from sagas.engine.read.redacting import redacted
from sagas.engine.read.views import read_only_view, saga_view, verification_view
from sagas.errors import Conflict, Problem
from sagas.handlers.http.answers import Served, answer, linked
from sagas.handlers.http.bodies import read_body
from sagas.handlers.http.inputs import (
    INCIDENT_FILTER,
    WHOLE_ID,
    Request,
    checked_id,
    checked_id_start,
    cursor_for,
    invalid,
)
from sagas.handlers.telemetry import telemetry
from sagas.operations import CompensationRequest, Reason, RecoveryAttempts, Resolution, RetryRequest
from sagas.store.index.listing import IndexPosition

_LISTED_BY = ("type", "status", "since", "until", "idempotency_key", "limit", "cursor")
"""The query parameters of lists, in addition to the search keys of saga types."""
_SEQ = re.compile(r"[0-9]{1,9}")


def _request(app: APIGatewayRestResolver) -> Request:
    return Request(app.current_event.raw_event)


def _plain(app: APIGatewayRestResolver) -> Request:
    """Return the call, which must not have query parameters."""
    request = _request(app)
    request.check_query()
    return request


def _show(request: Request, reader: Reader, name: str, saga_id: str) -> Response[str]:
    """Return the saga, or 304 if the caller's ETag matches."""
    saga, mark = reader.show_changed(name, saga_id, lambda mark: request.has_current(tag_of(mark)))
    return unchanged(tag_of(mark)) if saga is None else with_etag(request, linked(request.base, saga), mark)


def saga_operations(app: APIGatewayRestResolver, engine: Engine) -> list[Served]:
    """Return the functions that start and show sagas."""
    reader = engine.reader
    registry = engine.registry

    def start(name: str) -> Response[str]:
        registry.get(name)  # first, because an unknown type answers 404 whatever the body is
        request = _plain(app)
        key = request.header("Idempotency-Key")
        actor = request.actor
        body = request.body()
        correlation_id = request.correlation_id
        started = engine.starter.start(name, body, key=key, actor=actor, correlation_id=correlation_id)
        state = started.state
        entry = started.entry
        if started.created:
            view = saga_view(state, [entry], paused=reader.paused(state))  # as it was just written
            saga = linked(request.base, redacted(view, state, [entry], registry.redaction(name)))
        else:
            saga = _without_payloads(app, engine, state)  # the saga may be another caller's
        return answer(202 if started.created else 200, saga, {"Location": saga["links"]["self"]})

    def audit(name: str, saga_id: str) -> Response[str]:
        request = _request(app)
        request.check_query("limit", "cursor")
        trail = "audit", name, checked_id(saga_id)
        cursor = request.cursor(*trail)
        after = 0
        if cursor is not None:
            position = IndexPosition.parse(cursor)
            if position.sort != "seq" or not _SEQ.fullmatch(position.saga_id):
                raise invalid("cursor", [Problem("query.cursor", "must be from an earlier answer of the same list")])
            after = int(position.saga_id)
        entries, more = reader.audit(name, checked_id(saga_id), request.limit(), after)
        page: AuditPage = {
            "entries": entries,
            "cursor": None if more is None else cursor_for(IndexPosition("seq", str(more)).cursor, *trail),
        }
        return answer(200, page)

    def verify(name: str, saga_id: str) -> Response[str]:
        _plain(app)
        verified = engine.verifier.verify(name, checked_id(saga_id))
        return answer(200, verification_view(saga_id, verified))

    def show(name: str, saga_id: str) -> Response[str]:
        return _show(_plain(app), reader, name, checked_id(saga_id))

    return [start, audit, verify, show]


def list_operations(app: APIGatewayRestResolver, engine: Engine) -> list[Served]:
    """Return the functions that find and list sagas."""
    reader = engine.reader
    registry = engine.registry

    def look_up(saga_id: str) -> Response[str]:
        request = _plain(app)
        start = checked_id_start(saga_id)
        whole_id = start if len(start) == WHOLE_ID else reader.beginning_with(start)
        return _show(request, reader, reader.name_of(whole_id), whole_id)

    def list_sagas() -> Response[str]:
        request = _request(app)
        if request.text("parent") is not None:
            own = ("parent", "limit", "cursor")
            if not {*request.others(*own)}.isdisjoint(_LISTED_BY):
                raise invalid("parameters", [Problem("query.parent", "allowed only with limit and cursor")])
            request.check_query(*own)
            of = "children", request.parent()
            return _listed(request, reader.children(request.parent(), request.limit(), request.cursor(*of)), *of)
        name = request.text("type")
        names = [saga.definition.name for saga in registry] if name is None else [name]
        if name is not None:
            reader.refuse_unknown(name)
        types = [registry.get(each).definition for each in names if each in registry]
        search_keys = sorted({key.name for definition in types for key in definition.find_by})
        request.check_query(*_LISTED_BY, *search_keys)
        key = request.text("idempotency_key")
        if key is not None:
            if request.others("type", "idempotency_key", "limit"):
                raise invalid("parameters", [Problem("query.idempotency_key", "allowed only with type and limit")])
            request.limit()  # the limit is only checked: a type has at most one saga with the key
            return _listed(request, reader.by_keys(names, key))
        status = request.status()
        values = request.others(*_LISTED_BY)
        of = "sagas", name, status, values
        page = reader.list(names, status, request.limit(), request.cursor(*of), request.span(), values)
        return _listed(request, page, *of)

    return [look_up, list_sagas]


def attention_operations(app: APIGatewayRestResolver, engine: Engine) -> list[Served]:
    """Return the function that lists the sagas that need an operator."""
    reader = engine.reader

    def list_attention() -> Response[str]:
        request = _request(app)
        request.check_query(*INCIDENT_FILTER, "limit", "cursor", "group")
        name, wrong = request.incident()
        if name is not None:
            reader.refuse_unknown(name)
        if (group := request.text("group")) is not None:
            if group != "incident":
                raise invalid("parameters", [Problem("query.group", "must be incident")])
            return with_etag(request, reader.incidents(name, *wrong))
        of = "attention", name, *wrong
        return _listed(request, reader.attention(name, request.limit(), request.cursor(*of), *wrong), *of)

    return [list_attention]


def _listed(request: Request, page: Page, *of: object) -> Response[str]:
    """Return a page of a list. The page's cursor is valid only in this list."""
    sagas = [linked(request.base, saga) for saga in page["sagas"]]
    return with_etag(request, {"sagas": sagas, "cursor": cursor_for(page["cursor"], *of)})


def operator_operations(app: APIGatewayRestResolver, engine: Engine) -> list[Served]:
    """Return the functions that change one saga for an operator."""
    operations = engine.operations

    def changed(state: SagaState, status: int) -> Response[str]:
        return answer(status, _without_payloads(app, engine, state))

    def cancel(name: str, saga_id: str) -> Response[str]:
        request = _request(app)
        request.check_query("force", "reason")
        reason = request.cancel_reason()
        force = request.flag("force")
        state = operations.cancel(name, checked_id(saga_id), request.actor, reason=reason, force=force)
        saga = _without_payloads(app, engine, state)  # the saga may have ended; status and body must agree
        return answer(200 if saga["status"] == SagaStatus.CANCELLED else 202, saga)

    def retry(name: str, saga_id: str) -> Response[str]:
        request = _plain(app)
        body = read_body(request, RetryRequest)
        state = operations.retry(name, checked_id(saga_id), body.reason, request.actor, seq=body.seq)
        return changed(state, 202)

    def compensate(name: str, saga_id: str) -> Response[str]:
        request = _plain(app)
        body = read_body(request, CompensationRequest)
        caller = body.reason, request.actor
        state = operations.compensate(name, checked_id(saga_id), *caller, force=body.force, seq=body.seq)
        return changed(state, 202)

    def resolve(name: str, saga_id: str) -> Response[str]:
        request = _plain(app)
        body = read_body(request, Resolution)
        settled = body.reason, body.action, tuple(dict.fromkeys(body.steps))
        state = operations.resolve(name, checked_id(saga_id), *settled, request.actor, seq=body.seq)
        return changed(state, 200)

    return [cancel, retry, compensate, resolve]


def upkeep_operations(app: APIGatewayRestResolver, engine: Engine) -> list[Served]:
    """Return the functions that purge a saga and set its recovery attempts."""

    def purge(name: str, saga_id: str) -> Response[str]:
        request = _plain(app)
        body = read_body(request, Reason)
        actor = request.actor
        purged = engine.purger.purge(name, checked_id(saga_id), body.reason, actor)
        view = read_only_view(purged.state, purged.entries, purged.purge, purged.objects, purged.more_objects)
        view = redacted(view, purged.state, purged.entries, engine.registry.redaction(name), purged.hidden)
        return answer(200, linked(request.base, view))

    def set_recovery_attempts(name: str, saga_id: str) -> Response[str]:
        request = _plain(app)
        attempts = read_body(request, RecoveryAttempts).attempts
        state = engine.reader.state(name, checked_id(saga_id))
        if state.ended:
            raise Conflict(f"the saga is {state.status}; only sagas in flight can be recovered")
        engine.recovery.set_recovery_attempts(state.saga_id, attempts)
        # This is logged but not audited, because the number only decides when the supervisor gives up.
        fields = {"saga_id": state.saga_id, "saga": name, "attempts": attempts, "actor": request.actor}
        telemetry().logger.info("recovery attempts set", extra=fields)
        return answer(200, _without_payloads(app, engine, state))

    return [purge, set_recovery_attempts]


def _without_payloads(app: APIGatewayRestResolver, engine: Engine, state: SagaState) -> SagaView:
    """Return the view of a saga without its request and results: only callers with the right to read sagas get these,
    and large ones could make the answer fail."""
    return linked(_request(app).base, engine.reader.show(state.saga, state.saga_id, payloads=False))


def tag_of(mark: str) -> str:
    """Return the ``ETag`` of an answer. ``mark`` changes whenever the answer changes, except by a deployment."""
    deployed = os.environ.get("AWS_LAMBDA_FUNCTION_VERSION", "")
    return f'"{sha256(f"{deployed} {mark}".encode()).hexdigest()[:32]}"'


def with_etag(request: Request, body: Any, mark: str = "") -> Response[str]:
    """Return an answer with its ``ETag``, or 304 without a body if the caller's ``If-None-Match`` has the ETag."""
    tag = tag_of(mark or json.dumps(body))
    return unchanged(tag) if request.has_current(tag) else answer(200, body, {"ETag": tag})


def unchanged(tag: str) -> Response[str]:
    """Return 304: the caller's copy with this ``ETag`` is current."""
    return Response(status_code=304, body="", headers={"ETag": tag, "Cache-Control": "no-store"})
