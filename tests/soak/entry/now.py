"""The function that ends waits, and starts and joins children."""

from __future__ import annotations

import hashlib
from typing import Any

from sagas.handlers import now
from tests.soak import sagas as _sagas
from tests.soak.entry import invocation

_ = _sagas  # loaded with the function rather than in its first invocation


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    """Handle an SQS event. What is asked of it is told apart by what it says."""
    first = event["Records"][0]
    told = hashlib.sha256(first["body"].encode()).hexdigest()[:16]
    with invocation("/".join(["now", told, first["attributes"]["ApproximateReceiveCount"]])):
        return now.handler(event, context)
