"""The API's route that counts sagas."""

from __future__ import annotations

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from sagas.engine.composition.api import Api
from sagas.handlers.http.answers import Served, answer
from sagas.handlers.http.inputs import Request


def statistics_operations(app: APIGatewayRestResolver, engine: Api) -> list[Served]:
    """Return the function that counts sagas."""

    def stats() -> Response[str]:
        request = Request(app.current_event.raw_event)
        request.only("name", "since")
        name = request.text("name")
        types = [*engine.registry] if name is None else [engine.registry.get(name)]
        found = engine.statistics.of([one.definition.name for one in types], request.moment("since"))
        return answer(200, found)

    return [stats]
