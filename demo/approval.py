"""Fifth act: an order waits days for a person, but the days take only seconds."""

from __future__ import annotations

import time
from typing import Any

from demo.stack import Api, DemoFailed, LocalStack, skip

_PATIENCE = 60.0


def approve_late(stack: LocalStack, api: Api, request: dict[str, Any]) -> dict[str, Any]:
    """Approve an order over the limit on the second day, after a reminder.

    Raises:
        DemoFailed: the saga does not wait, sends no reminder, or does not place the order.
    """
    saga = _waiting_at(api, api.call("POST", "/sagas/approval", request), "decision")
    skip("1d")
    saga = _waiting_at(api, saga, "late_decision")
    path = f"/sagas/approval/{saga['saga_id']}/signals/late_decision"
    saga = api.wait(api.call("POST", path, {"approved": True, "by": "ada"}))
    if (saga["status"], _order(stack, saga)) != ("COMPLETED", "PLACED"):
        raise DemoFailed(f"the approval ended {saga['status']}: {saga['error']}, its order {_order(stack, saga)}")
    return saga


def answer_nothing(stack: LocalStack, api: Api, request: dict[str, Any]) -> dict[str, Any]:
    """Start a saga for an order, and let three days pass without a decision.

    Raises:
        DemoFailed: the order is not withdrawn.
    """
    saga = _waiting_at(api, api.call("POST", "/sagas/approval", request), "decision")
    skip("3d")
    saga = api.wait(saga)
    if (saga["status"], _order(stack, saga)) != ("COMPENSATED", "WITHDRAWN"):
        raise DemoFailed(f"after three days the approval is {saga['status']}, its order {_order(stack, saga)}")
    return saga


def _waiting_at(api: Api, saga: dict[str, Any], step: str) -> dict[str, Any]:
    """Wait until the saga waits for a signal at a step."""
    end = time.monotonic() + _PATIENCE
    while [one["name"] for one in saga["steps"] if one.get("waiting_for") == "signal"] != [step]:
        if time.monotonic() > end:
            raise DemoFailed(f"approval {saga['saga_id']} is {saga['status']} and does not wait at {step}")
        time.sleep(0.1)
        saga = api.call("GET", f"/sagas/approval/{saga['saga_id']}")
    return saga


def _order(stack: LocalStack, saga: dict[str, Any]) -> str:
    key = {"order_key": {"S": f"{saga['saga_id']}:enter"}}
    found = stack.client("dynamodb").get_item(TableName=stack.outputs["OrdersTable"], Key=key, ConsistentRead=True)
    return found["Item"]["order_status"]["S"]
