"""The API's routes for signals, which are sent to a saga's step or to a callback URL."""

from __future__ import annotations

from aws_lambda_powertools.event_handler import APIGatewayRestResolver, Response

from sagas.engine.engine import Engine
from sagas.engine.operate.callbacks import Callbacks
from sagas.engine.read.answers import CallbackView
from sagas.errors import Conflict, NotFound, Unavailable, WrongTables
from sagas.handlers.http.answers import Served, answer, linked
from sagas.handlers.http.inputs import Request, checked_id

ACTOR = "callback"
"""The actor of signals to callback URLs in the audit trail. Their senders are not authenticated."""


def signal_operations(app: APIGatewayRestResolver, engine: Engine) -> list[Served]:
    """Return the function that accepts a signal. It answers 202 for a new value, and 200 for a value that was accepted
    before."""

    def signal(name: str, saga_id: str, step: str) -> Response[str]:
        request = Request(app.current_event.raw_event)
        request.check_query()
        saga_id = checked_id(saga_id)
        # First, because a step that accepts no signals answers 404 whatever the body is.
        engine.signals.step(name, saga_id, step)
        outcome = engine.signals.send(name, saga_id, step, request.body(), request.actor)
        saga = engine.reader.show(name, saga_id, payloads=False)
        return answer(202 if outcome.accepted else 200, linked(request.base, saga))

    return [signal]


def add_callback_route(app: APIGatewayRestResolver, engine: Engine, callbacks: Callbacks) -> None:
    """Add the route that accepts a signal by its token. It answers with the same statuses, but a smaller body."""

    @app.post("/callbacks/<token>")
    def call_back(token: str) -> Response[str]:
        target = callbacks.read(token)
        try:
            engine.pauses.all()
        except WrongTables as error:  # the text names tables and services, which only operators may see
            raise Unavailable("no signal can be taken now; try again later", error.retry_after) from None
        # If the wait is no longer deployed with public=True, all its URLs are invalid.
        if not engine.signals.step(target.saga, target.saga_id, target.step).public:
            raise NotFound("no such resource")
        value = Request(app.current_event.raw_event).body_or_form()
        try:
            outcome = engine.signals.send(target.saga, target.saga_id, target.step, value, ACTOR)
        except Conflict:  # the reason may quote an operator
            refusal = f"step {target.step} took another value, or takes none any more"
            raise Conflict(refusal) from None
        # Only callers with the right to read the saga may see more of it.
        view: CallbackView = {
            "type": target.saga,
            "saga_id": target.saga_id,
            "step": target.step,
            "status": outcome.state.status.value,
        }
        return answer(202 if outcome.accepted else 200, view)

    _ = call_back
