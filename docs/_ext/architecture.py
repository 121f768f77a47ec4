"""What a service consists of, as a drawing: ``generated.py`` writes it, and a test holds it against a template."""

from __future__ import annotations

from drawing import Part, parts_drawing, place

PARTS = {
    "caller": Part("Your application", "HTTP or SagaClient", place(95, 40)),
    "operator": Part("Operator", "console or command line", place(95, 115)),
    "api": Part("API", "API Gateway, Lambda", place(360, 75), "ServiceApiFunction"),
    "supervisor": Part("Supervisor", "Lambda, each minute", place(540, 75), "ServiceSupervisor"),
    "queue 1": Part("Queue of step 1", "SQS", place(95, 205), "Serviceorderqueuesscan"),
    "function 1": Part("Step 1 and its undo", "Lambda", place(270, 205), "ServiceorderscanFunction"),
    "queue 2": Part("Queue of step 2", "SQS", place(450, 205), "Serviceorderqueuesapproval"),
    "function 2": Part("Step 2 and its undo", "Lambda", place(630, 205), "ServiceorderapprovalFunction"),
    "dead letters": Part("Dead letters", "SQS, per saga type", place(805, 205), "ServiceorderqueuesDeadLetters"),
    "payloads": Part("Large payloads", "S3", place(95, 335), "ServiceTablesPayloads"),
    "tables": Part("State, and audit trail", "DynamoDB", place(450, 335, 255), "ServiceTablesSagas"),
    "events": Part("Events", "EventBridge, optional", place(805, 335), "ServiceOutbox"),
}
_ARROWS = (
    ("caller", "api"), ("operator", "api"), ("api", "queue 1"), ("api", "tables"), ("queue 1", "function 1"),
    ("function 1", "queue 2"), ("queue 2", "function 2"), ("function 2", "dead letters"), ("function 1", "tables"),
    ("function 2", "tables"), ("function 1", "payloads"), ("supervisor", "queue 2"), ("supervisor", "tables"),
    ("tables", "events"),
)  # fmt: skip


def svg() -> str:
    """Return the drawing."""
    return parts_drawing(900, 375, PARTS, _ARROWS)
