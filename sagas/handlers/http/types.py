"""The API's routes about saga types: their declarations, pauses, breakers and numbers of sagas."""

from __future__ import annotations

import os
from dataclasses import asdict

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from sagas.authoring.codec import json_schema
from sagas.authoring.definition.definition import StepDefinition
from sagas.core.gates import NO_PAUSE, Pause, Scope
from sagas.engine.engine import Engine
from sagas.engine.read.overviews import BreakerList, TypeList, TypeStepView, TypeView
from sagas.engine.read.views import pause_view
from sagas.handlers.http.answers import Served, answer
from sagas.handlers.http.bodies import read_body
from sagas.handlers.http.inputs import Request, checked_id, cursor_for
from sagas.handlers.http.openapi import describe
from sagas.handlers.tasks.recovering import recover as recover_sagas
from sagas.handlers.telemetry import telemetry
from sagas.operations import PauseChange, RecoveryOptions
from sagas.paths import path_text


def type_operations(app: APIGatewayRestResolver, engine: Engine) -> list[Served]:
    """Return the functions that show and change saga types, and the function that describes the API."""
    registry = engine.registry

    def view_of(name: str, pauses: dict[Scope, Pause]) -> TypeView:
        definition = registry.get(name).definition
        now = engine.clock.now()
        pause = pauses.get(Scope(name), NO_PAUSE)
        streak = engine.auto_disabler.streak(name, now)
        views = [pause_view(scope, each) for scope, each in pauses.items() if scope.name == name]
        failing = streak.paused_until > now
        if failing:
            from sagas.engine.read.overview import automatic_view

            views.append(automatic_view(name, streak))
        return {
            "type": definition.name,
            "version": definition.version,
            "description": definition.description,
            "active": not failing and (pause.starts or not pause.on),
            "paused": pause.holds(undo=False),
            "reason": next((view["reason"] for view in views if not view["step"] and not view["saga_id"]), None),
            "failures": len(streak.failures),
            "pauses": views,
            "cancellable": definition.cancellable,
            "find_by": {key.name: path_text(key.path) for key in definition.find_by},
            "request": json_schema(definition.request_type),
            "steps": [_step(step) for step in definition.steps],
        }

    def list_types() -> Response[str]:
        Request(app.current_event.raw_event).check_query()
        pauses = engine.pauses.listed()
        types: TypeList = {"types": [view_of(saga.definition.name, pauses) for saga in registry]}
        return answer(200, types)

    def show_type(name: str) -> Response[str]:
        Request(app.current_event.raw_event).check_query()
        return answer(200, view_of(name, engine.pauses.listed()))

    def show_in_flight(name: str) -> Response[str]:
        request = Request(app.current_event.raw_event)
        request.check_query("cursor")
        view = engine.in_flight.page(name, request.cursor("in-flight", name))
        view["cursor"] = cursor_for(view["cursor"], "in-flight", name)
        return answer(200, view)

    def change_type(name: str) -> Response[str]:
        engine.reader.check_deployed(name)
        request = Request(app.current_event.raw_event)
        request.check_query()
        change = read_body(request, PauseChange)
        step = change.step or ""
        saga_id = "" if change.saga_id is None else checked_id(change.saga_id)
        if change.paused or change.active is False:
            kinds = {"starts_only": change.active is False, "starts": change.starts, "undos": change.undos}
            engine.pausing.pause(name, request.actor, change.reason or "", step=step, saga_id=saga_id, **kinds)
        else:
            engine.pausing.resume(name, request.actor, step=step, saga_id=saga_id)
        return answer(200, view_of(name, engine.pauses.listed()))

    def recover(name: str) -> Response[str]:
        engine.reader.check_deployed(name)
        request = Request(app.current_event.raw_event)
        request.check_query()
        options = asdict(read_body(request, RecoveryOptions))
        telemetry().logger.info("recovery requested", extra={"saga": name, "actor": request.actor})
        return answer(200, recover_sagas({"type": name, **options}, app.lambda_context, engine))

    def openapi() -> Response[str]:
        request = Request(app.current_event.raw_event)
        request.check_query()
        service = os.environ.get("POWERTOOLS_SERVICE_NAME", "Sagas")
        authorizer = os.environ.get("SAGAS_AUTHORIZER", "")
        return answer(200, describe(list(registry), request.base, service, authorizer))

    return [list_types, show_type, show_in_flight, change_type, recover, openapi]


def breaker_operations(app: APIGatewayRestResolver, engine: Engine) -> list[Served]:
    """Return the functions about circuit breakers."""

    def list_breakers() -> Response[str]:
        Request(app.current_event.raw_event).check_query()
        breakers: BreakerList = {"breakers": engine.breaker_operations.list()}
        return answer(200, breakers)

    def close_breaker(name: str, step: str) -> Response[str]:
        request = Request(app.current_event.raw_event)
        request.check_query()
        return answer(200, engine.breaker_operations.close(name, step, request.actor))

    return [list_breakers, close_breaker]


def statistics_operations(app: APIGatewayRestResolver, engine: Engine) -> list[Served]:
    """Return the functions that count sagas."""

    def stats() -> Response[str]:
        request = Request(app.current_event.raw_event)
        request.check_query("type", "since")
        name = request.text("type")
        types = [*engine.registry] if name is None else [engine.registry.get(name)]
        counts = engine.statistics.of([saga.definition.name for saga in types], request.moment("since"))
        return answer(200, counts)

    def overview() -> Response[str]:
        Request(app.current_event.raw_event).check_query()
        view = engine.overview.current()
        view["breakers"] = engine.breaker_operations.with_messages(view["breakers"])
        return answer(200, view)

    return [stats, overview]


def _step(step: StepDefinition) -> TypeStepView:
    view: TypeStepView = {
        "name": step.name,
        "undo": step.undo.name if step.undo else None,
        "max_retries": step.retry.max_retries,
        "on_exhausted": step.on_exhausted.value,
        "timeout": step.timeout,
        "retired": step.retired,
        "pivot": step.pivot,
    }
    if step.waits_for == "signal":
        view["signal"] = json_schema(step.signal_type)
    if step.children is not None:
        view["children"] = [child.name for child in step.children.sagas]
    return view
