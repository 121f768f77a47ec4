"""A service in memory on a bad day: what the console's pages are looked at with."""

from __future__ import annotations

import time
from typing import Any

from sagas.core.text import iso
from tests.unit.client.stub import a_saga, a_step, attention
from tests.unit.console.service import FakeService, a_letter, a_type, an_entry, dead, in_flight, numbered

UNDO_FAILED, STALLED, WAITING = numbered(0x64), numbered(0x190), numbered(0x191)
OFFLINE = {"type": "RefundRefused", "message": "the terminal is offline"}
REJECTED = {"type": "Rejected", "message": "no carrier serves AQ"}
_TRACE = """Traceback (most recent call last):
  File "functions/checkout.py", line 88, in refund
    terminal.refund(capture.reference, key=ctx.idempotency_key)
RefundRefused: the terminal is offline
"""


def a_bad_day() -> FakeService:
    """Return the service: undos that failed, dead letters, a worker that died, a wait, a breaker, a disabled type."""
    now = time.time()

    def at(seconds: float) -> str:
        return iso(now + seconds)

    def step(name: str, status: str = "COMPLETED", **fields: Any) -> dict[str, Any]:
        return a_step(name, status, started_at=at(-60), ended_at=at(-50), **fields)

    sagas = [
        a_saga(
            "COMPENSATION_FAILED",
            type="checkout",
            saga_id=numbered(0x64 + number),
            created_at=at(-785 - 60 * number),
            updated_at=at(-720 - 60 * number),
            attention=attention("undo_failed", {"step": "capture", **OFFLINE, "undo": True}),
            request={"amount": 280, "customer": "c-280", "card": "4111 1111 1111 1111"},
            error={"step": "ship", **REJECTED},
            steps=[
                step("reserve", "COMPENSATED", undo_attempts=1, took=1.2, result={"shelf": "B 12"}),
                step(
                    "capture", "COMPENSATION_FAILED", attempts=2, undo_attempts=4, error=OFFLINE, took=3.0, result="p-1"
                ),
                step("ship", "FAILED", attempts=3, error=REJECTED, took=5.0),
                step("notify", "PENDING", attempts=0),
            ],
        )
        for number in range(3)
    ]
    sagas += [dead(0xC8 + number, created_at=at(-10_000), updated_at=at(-9_000 - number)) for number in range(24)]
    sagas += [
        a_saga(saga_id=numbered(0x12C + number), created_at=at(-500 - number), updated_at=at(-480 - number))
        for number in range(60)
    ]
    lease = {"claimed_at": at(-90), "expires_at": at(-40), "heartbeat_at": at(-60)}
    sagas.append(
        a_saga(
            "RUNNING",
            type="checkout",
            saga_id=STALLED,
            created_at=at(-100),
            updated_at=at(-90),
            lease=lease,
            steps=[step("reserve"), step("capture", "RUNNING")],
        )
    )
    wait = step("approval", "WAITING", waiting_for="signal", waits_until=at(3600))
    sagas.append(
        a_saga("WAITING", type="loan", saga_id=WAITING, created_at=at(-1000), updated_at=at(-900), steps=[wait])
    )
    service = FakeService(sagas)
    service.known_types = [a_type("checkout"), a_type(), a_type("loan", active=False, reason="4 sagas in a row failed")]
    kept: dict[str, Any] = service.known_types[0]["steps"][0]
    undos = (("reserve", "release"), ("capture", "refund"), ("ship", None), ("notify", None))
    service.known_types[0]["steps"] = [{**kept, "name": name, "undo": undo} for name, undo in undos]
    properties = {"by": {"type": "string"}, "level": {"enum": ["low", "high"]}}
    schema = {"type": "object", "properties": properties, "required": ["by"]}
    service.known_types[2] |= {"steps": [{**kept, "name": "approval", "signal": schema}], "changed_at": at(-400)}
    service.known_in_flight = in_flight()
    service.letters = [a_letter(message_id=f"m-{number}") for number in range(28)]
    service.known_breakers = [
        {
            "type": "loan", "step": "score", "state": "open", "failures": 5, "open_until": at(21), "waiting": 57,
            "more_waiting": False,
            "last_error": {
                "type": "ProviderDown", "message": "quotes.example answered 503", "at": at(-9), "saga_id": numbered(3),
                "seq": 5,
            },
        }
    ]  # fmt: skip

    def entry(seq: int, action: str, name: str | None, after: float, ran: float = 0.0, **fields: Any) -> dict[str, Any]:
        details: dict[str, Any] = fields.pop("details", {})
        began = {"started_at": at(-785 + after - ran)} if ran else {}
        return an_entry(seq, action, name, at=at(-785 + after), details={**details, **began}, **fields)

    service.entries = [
        entry(1, "SagaStarted", None, 0),
        entry(2, "StepCompleted", "reserve", 2, 1.2),
        entry(3, "StepFailed", "capture", 4, 2, details={"error": OFFLINE, "next_attempt_at": at(-785 + 9)}),
        entry(4, "StepCompleted", "capture", 12, 3, attempt=2),
        entry(5, "StepFailed", "ship", 16, 3, details={"error": REJECTED, "next_attempt_at": at(-785 + 26)}),
        entry(6, "StepLost", "ship", 46, 20, attempt=2, details={"error": {"type": "Lost", "message": ""}}),
        entry(7, "StepFailed", "ship", 51, 5, attempt=3, details={"error": REJECTED}),
        entry(8, "CompensationStarted", None, 51, details={"cause": "failure"}),
        entry(
            9, "CompensationFailed", "capture", 61, 9, attempt=4, trace_id="1-67a92466-4b6aa15a05ffcd4c510de968",
            details={"error": OFFLINE, "stack_trace": _TRACE},
        ),
        entry(10, "StepCompensated", "reserve", 64, 2),
    ]  # fmt: skip
    return service
