"""The API's routes about circuit breakers."""

from __future__ import annotations

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from sagas.engine.composition.api import Api
from sagas.engine.read.answers import BreakerList
from sagas.handlers.http.answers import Served, answer
from sagas.handlers.http.inputs import Request


def breaker_operations(app: APIGatewayRestResolver, engine: Api) -> list[Served]:
    """Return the functions about circuit breakers."""

    def list_breakers() -> Response[str]:
        Request(app.current_event.raw_event).only()
        found: BreakerList = {"breakers": engine.breaker_operations.list()}
        return answer(200, found)

    def close_breaker(saga: str, step: str) -> Response[str]:
        request = Request(app.current_event.raw_event)
        request.only()
        return answer(200, engine.breaker_operations.close(saga, step, request.actor))

    return [list_breakers, close_breaker]
