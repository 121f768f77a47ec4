"""The API's routes about circuit breakers."""

from __future__ import annotations

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from sagas.engine.answers import BreakerList
from sagas.engine.engine import Engine
from sagas.handlers.answers import answer
from sagas.handlers.inputs import Request


def add_breaker_routes(app: APIGatewayRestResolver, engine: Engine) -> None:
    """Add ``/breakers`` to ``app``."""

    @app.get("/breakers")
    def list_breakers() -> Response[str]:
        Request(app.current_event.raw_event).only()
        found: BreakerList = {"breakers": engine.breaker_operations.list()}
        return answer(200, found)

    @app.post("/breakers/<saga>/<step>/close")
    def close_breaker(saga: str, step: str) -> Response[str]:
        request = Request(app.current_event.raw_event)
        request.only()
        return answer(200, engine.breaker_operations.close(saga, step, request.actor))

    _ = list_breakers, close_breaker
