"""One run of the supervisor, now."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from sagas.local.clients import Clients
from sagas.local.description import Description
from sagas.local.errors import LocalStackError
from sagas.local.files import Files

__all__ = ["tick"]


def tick(project: Path, stale_after: float | None = None) -> dict[str, Any]:
    """Have the supervisor of the local stack recover once.

    Args:
        project: the directory of the stack.
        stale_after: seconds of silence that count as a stall; each saga type's own by default.

    Returns:
        What it did, in counts.

    Raises:
        LocalStackError: no stack is running, or the supervisor failed.
    """
    description = Description.read(Files(project).description)
    event: dict[str, Any] = {"task": "recover"}
    if stale_after is not None:
        event["stale_after"] = stale_after
    client = Clients(description.endpoint_url, description.region).client("lambda")
    try:
        answer = client.invoke(FunctionName=description.supervisor, Payload=json.dumps(event).encode())
        counts = json.loads(answer["Payload"].read())
    except (BotoCoreError, ClientError, ValueError) as error:
        raise LocalStackError(f"the supervisor did not answer: {error}") from error
    if "FunctionError" in answer:
        raise LocalStackError(f"the supervisor failed: {counts.get('errorMessage', 'no reason given')}")
    return counts
