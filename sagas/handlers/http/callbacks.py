"""The API's route for signals from callers without AWS credentials, who post to a callback URL from a saga."""

from __future__ import annotations

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from sagas.engine.composition.api import Api
from sagas.engine.operate.callbacks import Callbacks
from sagas.engine.read.answers import CallbackView
from sagas.errors import NotFound
from sagas.handlers.http.answers import answer
from sagas.handlers.http.inputs import Request

ACTOR = "callback"
"""The actor of these signals in the audit trail. Their senders are not authenticated."""


def add_callback_route(app: APIGatewayRestResolver, engine: Api, callbacks: Callbacks) -> None:
    """Add the route that accepts a signal by its token. It has the statuses of other signals, but a smaller body."""

    @app.post("/callbacks/<token>")
    def call_back(token: str) -> Response[str]:
        target = callbacks.read(token)
        # Once a wait is deployed without public=True, all its URLs are invalid.
        if not engine.signals.step(target.saga, target.step).public:
            raise NotFound("no such resource")
        value = Request(app.current_event.raw_event).body()
        outcome = engine.signals.send(target.saga, target.saga_id, target.step, value, ACTOR)
        # The saga itself is only for callers with the right to read it.
        view: CallbackView = {
            "type": target.saga,
            "saga_id": target.saga_id,
            "step": target.step,
            "status": outcome.state.status.value,
        }
        return answer(202 if outcome.accepted else 200, view)

    _ = call_back
