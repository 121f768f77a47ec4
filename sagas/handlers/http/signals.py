"""The API's route for signals from people and systems to sagas that wait for them."""

from __future__ import annotations

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from sagas.engine.composition.api import Api
from sagas.handlers.http.answers import Served, answer, linked
from sagas.handlers.http.inputs import Request, checked_id


def signal_operations(app: APIGatewayRestResolver, engine: Api) -> list[Served]:
    """Return the function that accepts a signal: 202 for a new value, 200 if the same value was accepted before."""

    def signal(name: str, saga_id: str, step: str) -> Response[str]:
        request = Request(app.current_event.raw_event)
        request.only()
        saga_id = checked_id(saga_id)
        engine.signals.step(name, step)  # first: a step that accepts no signals answers 404, whatever the body is
        outcome = engine.signals.send(name, saga_id, step, request.body(), request.actor)
        saga = engine.reader.show(name, saga_id, payloads=False)
        return answer(202 if outcome.accepted else 200, linked(request.base, saga))

    return [signal]
