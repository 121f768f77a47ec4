"""Checks of schemathesis that know this API: loaded by its command line through ``SCHEMATHESIS_HOOKS``.

They stand for those of its own that take for granted what is otherwise here, each narrowly:

- ``positive_data_acceptance``: a 422 may answer data that fits the description, but only for what no schema can say.
- ``not_a_server_error``: 503 is the answer to a start of a paused saga type, and to nothing else.
- ``unsupported_method``: a REST API of API Gateway answers 403, not 405, where there is no such method.
- ``use_after_free``: a cancelled saga can still be read. That is the point of it.
"""

from __future__ import annotations

import os
import re
from typing import Any

import jsonschema_rs
import schemathesis

from functions.checkout import CheckoutRequest
from sagas.authoring.codec import json_schema

_UNSAID = re.compile(
    r"query\.cursor"  # none of an earlier answer
    r"|query\.(since|until)"  # no time of ISO 8601, or not one after the other
    r"|query\.(parent|idempotency_key)"  # goes without what else a list is asked by
    r"|query\.(step|code|error)"  # goes with what is asked before it only
    r"|\$\.step"  # no step of this type
    r"|\$\.steps\[\d+\]"  # no step of this saga
    r"|header\.Idempotency-Key"  # used before, with another body
    r"|\$(\.parcels\[\d+\])?(\.items\[\d+\])?"  # refused by a ``__post_init__``, which may look at whole objects only
)


def _error(response: schemathesis.Response) -> dict[str, Any]:
    body = response.json()
    # A call that names another state is answered with the saga as it is.
    changed = body["error"]["code"] == "state_changed"
    assert set(body) == ({"error", "saga"} if changed else {"error"}), body
    assert set(body["error"]) == {"code", "message", "details"}, body
    return body["error"]


_Case = schemathesis.Case[Any]
_PAYABLE = {"items": [{"sku": "no-such-sku", "quantity": 1}], "amount": "12.50"}
_ORDERS = jsonschema_rs.Draft202012Validator(json_schema(CheckoutRequest))


_hook: Any = getattr(schemathesis, "hook")  # noqa: B009 -- its type is partly unknown


@_hook
def before_load_schema(context: Any, raw_schema: Any) -> None:
    """Leave out how calls are authorized: the emulator lets unsigned calls in."""
    del raw_schema["security"]


@_hook
def map_body(context: Any, body: Any) -> Any:
    """Make an order that fits the description one that the shop takes, too, so that chains of calls have a saga."""
    if context.operation.label == "POST /sagas/checkout" and isinstance(body, dict) and _ORDERS.is_valid(body):
        return body | _PAYABLE  # pyright: ignore[reportUnknownVariableType] -- any JSON
    return body  # pyright: ignore[reportUnknownVariableType]


@_hook
def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    """Put a token or an id that leads somewhere in the place of what is made up, where the environment names one."""
    given = {"token": os.environ.get("HOSTILE_TOKEN"), "saga_id": os.environ.get("HOSTILE_SAGA")}
    made_up: dict[str, Any] = path_parameters or {}
    return {name: given.get(name) or value for name, value in made_up.items()}


@schemathesis.check
def answers_have_one_shape(ctx: schemathesis.CheckContext, response: schemathesis.Response, case: _Case) -> None:
    """An error has the one shape, also where it is the gateway's own, and never a stack trace."""
    if response.status_code >= 400 and response.request.method != "HEAD":
        error = _error(response)
        assert error["code"]
        assert (response.status_code == 422) == isinstance(error["details"], list)
        assert "Traceback" not in response.text


@schemathesis.check
def only_a_paused_type_is_unavailable(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: _Case
) -> None:
    """No 5xx, but for the start of a type that a call before this one has paused."""
    if response.status_code >= 500:
        assert (response.status_code, _error(response)["code"]) == (503, "paused")
        assert (case.method.upper(), case.operation.path.count("/")) == ("POST", 2)


@schemathesis.check
def what_fits_is_taken(ctx: schemathesis.CheckContext, response: schemathesis.Response, case: _Case) -> None:
    """What the description allows is refused only for what it cannot say."""
    meta = case.meta
    if meta is None or not meta.generation.mode.is_positive or response.status_code not in (400, 413, 415, 422):
        return
    assert response.status_code == 422, response.text
    paths = [problem["path"] for problem in _error(response)["details"]]
    assert all(_UNSAID.fullmatch(path) for path in paths), paths
