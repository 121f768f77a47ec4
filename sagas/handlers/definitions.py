"""The API's routes about saga types."""

from __future__ import annotations

from dataclasses import asdict

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from sagas.authoring.codec import json_schema
from sagas.authoring.definition import StepDefinition
from sagas.core.times import iso
from sagas.engine.answers import DefinitionList, DefinitionStepView, DefinitionView
from sagas.engine.engine import Engine
from sagas.handlers.answers import answer
from sagas.handlers.bodies import Change, Recovering, read_body
from sagas.handlers.inputs import Request
from sagas.handlers.openapi import describe
from sagas.handlers.recovering import recover
from sagas.handlers.telemetry import telemetry
from sagas.store.activities import FOREVER, Activity


def add_definition_routes(app: APIGatewayRestResolver, engine: Engine) -> None:
    """Add ``/definitions`` and ``/openapi.json`` to ``app``."""
    activities, registry = engine.activities, engine.registry

    def shown(name: str) -> DefinitionView:
        definition, activity = registry.get(name).definition, activities.get(name, fresh=True)
        now = engine.clock.now()
        failures = engine.auto_disabler.failures_in_a_row(name, activity, now)
        failing = activity.disabled_until > now
        for_good, pause = activity.disabled_until == FOREVER, engine.pauses.get(name, fresh=True)
        paused_because = pause.reason if pause.on and activity.active else ""
        automatic = f"{failures} sagas in a row failed" if failing else ""
        return {
            "name": definition.name,
            "version": definition.version,
            "description": definition.description,
            "active": activity.active and not failing,
            "reason": automatic or paused_because or activity.reason or None,
            "changed_by": activity.changed_by or None,
            "changed_at": iso(activity.changed_at) if activity.changed_at else None,
            "failures": failures,
            "disabled_until": iso(activity.disabled_until) if failing and not for_good else None,
            "paused": pause.on,
            "starts": activity.active and not failing and (pause.starts or not pause.on),
            "undos_paused": pause.on and pause.undos,
            "paused_at": iso(pause.at) if pause.on else None,
            "paused_by": (pause.by or None) if pause.on else None,
            "pause_reason": (pause.reason or None) if pause.on else None,
            "cancellable": definition.cancellable,
            "request": json_schema(definition.request_type),
            "steps": [_step(step) for step in definition.steps],
        }

    @app.get("/definitions")
    def list_definitions() -> Response[str]:
        Request(app.current_event.raw_event).only()
        found: DefinitionList = {"definitions": [shown(saga.definition.name) for saga in registry]}
        return answer(200, found)

    @app.get("/definitions/<name>")
    def show_definition(name: str) -> Response[str]:
        Request(app.current_event.raw_event).only()
        return answer(200, shown(name))

    @app.put("/definitions/<name>")
    def change_definition(name: str) -> Response[str]:
        registry.get(name)
        request = Request(app.current_event.raw_event)
        request.only()
        change, now = read_body(request, Change), engine.clock.now()
        reason = change.reason or ""
        if change.active is not None:
            activities.put(name, Activity(change.active, reason, request.actor, now))
        if change.paused:
            starts, undos = change.starts, change.undos
            engine.pausing.pause(name, request.actor, reason, starts=starts, undos=undos)
        elif change.paused is not None:
            engine.pausing.resume(name, request.actor)
        return answer(200, shown(name))

    @app.post("/definitions/<name>/recover")
    def recover_sagas(name: str) -> Response[str]:
        registry.get(name)
        request = Request(app.current_event.raw_event)
        request.only()
        wanted = asdict(read_body(request, Recovering))
        telemetry().logger.info("recovery asked for", extra={"saga": name, "actor": request.actor})
        return answer(200, recover({"name": name, **wanted}, app.lambda_context, engine))

    @app.get("/openapi.json")
    def openapi() -> Response[str]:
        request = Request(app.current_event.raw_event)
        request.only()
        return answer(200, describe(list(registry), request.base))

    _ = list_definitions, show_definition, change_definition, recover_sagas, openapi


def _step(step: StepDefinition) -> DefinitionStepView:
    view: DefinitionStepView = {
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
