"""A step's function."""

from __future__ import annotations

import json
from typing import Any

from sagas.handlers import step
from tests.soak import sagas as _sagas
from tests.soak.entry import invocation

_ = _sagas  # loaded with the function rather than in its first invocation


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle an SQS event of one record."""
    (record,) = event["Records"]
    told = json.loads(record["body"])
    names = [str(told[name]) for name in ("saga", "saga_id", "step", "undo", "dispatch", "hops")]
    commit = ["commit"] if "commit" in told else []
    with invocation("/".join(["step", *names, *commit, record["attributes"]["ApproximateReceiveCount"]])):
        return step.handler(event, context)
