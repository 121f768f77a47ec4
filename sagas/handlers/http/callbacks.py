"""The API's route by which those send signals who have no AWS credentials, but the URL that a saga gave them."""

from __future__ import annotations

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from sagas.engine.composition.api import Api
from sagas.engine.operate.callbacks import Callbacks
from sagas.engine.read.answers import CallbackView
from sagas.errors import NotFound
from sagas.handlers.http.answers import answer
from sagas.handlers.http.inputs import Request

ACTOR = "callback"
"""Who sends what comes by a callback URL, in the audit trail: nobody was asked who they are."""


def add_callback_route(app: APIGatewayRestResolver, engine: Api, callbacks: Callbacks) -> None:
    """Add the route that takes a signal by its token to ``app``: answers as for other signals, but for what they
    show."""

    @app.post("/callbacks/<token>")
    def call_back(token: str) -> Response[str]:
        called = callbacks.read(token)
        # A deployment that declares the wait no longer public takes back all its URLs.
        if not engine.signals.step(called.saga, called.step).public:
            raise NotFound("no such resource")
        value = Request(app.current_event.raw_event).body()
        sent = engine.signals.send(called.saga, called.saga_id, called.step, value, ACTOR)
        # Not the saga: what it is about concerns those who may read it.
        view: CallbackView = {
            "type": called.saga,
            "saga_id": called.saga_id,
            "step": called.step,
            "status": sent.state.status.value,
        }
        return answer(202 if sent.accepted else 200, view)

    _ = call_back
