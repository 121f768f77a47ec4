"""Saga *approval*: a person approves orders over a limit, gets a reminder after a day, and has three days to decide.

Nothing runs while the saga waits. The person sends ``{"approved": true, "by": "ada"}`` to the path in the message, with
``sagas signal approval SAGA_ID decision --data ...`` or an IAM-signed POST. With ``public=True``, the message could
contain ``ctx.callback_url`` instead, a link for people without AWS credentials.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, Self

from sagas import Context, Exhausted, PermanentError, Rejected, Retry, Saga, step, wait_for

LIMIT = "500"
"""The default limit. Orders up to the limit need no approval."""

REMINDED_AFTER = timedelta(days=1)
WITHDRAWN_AFTER = timedelta(days=3)


@dataclass(frozen=True)
class OrderRequest:
    """An order that may need an approval.

    Args:
        order_id: the caller's id of the order.
        amount: the price.
        purpose: the purpose, for the person who decides.
    """

    order_id: str
    amount: Decimal
    purpose: str

    def __post_init__(self) -> None:
        if not self.amount.is_finite() or self.amount <= 0:
            raise ValueError("the amount must be positive")


@dataclass(frozen=True)
class Decision:
    """The decision, and the person who made it."""

    approved: bool
    by: str


@dataclass(frozen=True)
class Placed:
    """An order that was placed, and the person who approved it."""

    order_key: str
    approved_by: str


@dataclass(frozen=True)
class ApprovalConfig:
    """The table of orders, the topic for requests to people, and the limit."""

    orders_table: str
    topic: str
    limit: Decimal


def undecided(decision: Decision | None) -> bool:
    """Whether nobody has decided within a day."""
    return decision is None


class Approval(Saga[OrderRequest], name="approval", retry=Retry.exponential(max_retries=5, base_delay=0.5)):
    """Enters an order, asks for an approval, and places the order."""

    def __init__(self, config: ApprovalConfig) -> None:
        self._config = config

    @classmethod
    def create(cls) -> Self:
        """Take the configuration from the environment."""
        limit = Decimal(os.environ.get("APPROVAL_LIMIT", LIMIT))
        return cls(ApprovalConfig(os.environ["ORDERS_TABLE"], os.environ["ANNOUNCE_TOPIC_ARN"], limit))

    @step(result="order_key", undo_when="started")
    def enter(self, request: OrderRequest, ctx: Context) -> str:
        """Enter the order as open. Repeated calls change nothing."""
        self._mark(ctx, ctx.idempotency_key, "OPEN", unless="WITHDRAWN", order_id=request.order_id)
        return ctx.idempotency_key

    @enter.compensate
    def withdraw(self, ctx: Context) -> None:
        """Withdraw the order. If it was not entered, this prevents a later entry."""
        self._mark(ctx, ctx.forward_key, "WITHDRAWN")

    @wait_for(Decision, timeout=REMINDED_AFTER, on_timeout=Exhausted.CONTINUE)
    def decision(self, request: OrderRequest, ctx: Context) -> None:
        """Ask a person, unless the amount is within the limit."""
        if request.amount <= self._config.limit:
            ctx.signal(Decision(approved=True, by="the limit"))
        else:
            self._ask(ctx, "Please decide", request)

    @wait_for(Decision, timeout=WITHDRAWN_AFTER - REMINDED_AFTER, when=undecided)
    def late_decision(self, request: OrderRequest, ctx: Context) -> None:
        """Remind the person. Without an answer to the reminder, the order is withdrawn."""
        self._ask(ctx, "Reminder", request)

    @step
    def place(self, order_key: str, decision: Decision | None, late_decision: Decision | None, ctx: Context) -> Placed:
        """Place the order if it was approved."""
        decided = decision or late_decision or Decision(approved=False, by="nobody")
        if not decided.approved:
            raise Rejected(f"{decided.by} did not approve")
        self._mark(ctx, order_key, "PLACED", unless="WITHDRAWN", approved_by=decided.by)
        return Placed(order_key, decided.by)

    def _ask(self, ctx: Context, subject: str, request: OrderRequest) -> None:
        text = f"Order {request.order_id}, {request.amount}, for {request.purpose}: {ctx.signal_path}"
        ctx.client("sns").publish(TopicArn=self._config.topic, Subject=subject, Message=text)
        ctx.logger.info("asked")

    def _mark(self, ctx: Context, key: str, status: str, *, unless: str = "", **values: str) -> None:
        """Write an order's status and other values, unless its status is ``unless``."""
        changed = {"order_status": status, **values}
        request: dict[str, Any] = {
            "TableName": self._config.orders_table,
            "Key": {"order_key": {"S": key}},
            "UpdateExpression": "SET " + ", ".join(f"{name} = :{name}" for name in changed),
            "ExpressionAttributeValues": {f":{name}": {"S": value} for name, value in changed.items()},
        }
        if unless:
            request["ConditionExpression"] = "attribute_not_exists(order_status) OR order_status <> :unless"
            request["ExpressionAttributeValues"][":unless"] = {"S": unless}
        orders = ctx.client("dynamodb")
        try:
            orders.update_item(**request)
        except orders.exceptions.ConditionalCheckFailedException as error:
            raise PermanentError(f"the order was {unless.lower()} before") from error
