"""What a service consists of, as a drawing: ``generated.py`` writes it, and a test holds it against a template."""

from __future__ import annotations

from dataclasses import dataclass

from drawing import Box, arrow, drawing


@dataclass(frozen=True)
class Part:
    """A box of the drawing.

    Args:
        title: its first line.
        note: its second line.
        box: its place.
        logical_id: what the id of its resource begins with in a template; empty for what is outside the stack.
    """

    title: str
    note: str
    box: Box
    logical_id: str = ""


def _box(x: int, y: int, half_width: int = 75) -> Box:
    return Box(x, y, half_width, 26)


PARTS = {
    "caller": Part("Your application", "HTTP or SagaClient", _box(95, 40)),
    "operator": Part("Operator", "console or command line", _box(95, 115)),
    "api": Part("API", "API Gateway, Lambda", _box(360, 75), "ServiceApiFunction"),
    "supervisor": Part("Supervisor", "Lambda, each minute", _box(540, 75), "ServiceSupervisor"),
    "queue 1": Part("Queue of step 1", "SQS", _box(95, 205), "Serviceorderqueuesscan"),
    "function 1": Part("Step 1 and its undo", "Lambda", _box(270, 205), "ServiceorderscanFunction"),
    "queue 2": Part("Queue of step 2", "SQS", _box(450, 205), "Serviceorderqueuesapproval"),
    "function 2": Part("Step 2 and its undo", "Lambda", _box(630, 205), "ServiceorderapprovalFunction"),
    "dead letters": Part("Dead letters", "SQS, per saga type", _box(805, 205), "ServiceorderqueuesDeadLetters"),
    "payloads": Part("Large payloads", "S3", _box(95, 335), "ServiceTablesPayloads"),
    "tables": Part("State, and audit trail", "DynamoDB", _box(450, 335, 255), "ServiceTablesSagas"),
    "events": Part("Events", "EventBridge, optional", _box(805, 335), "ServiceOutbox"),
}
_ARROWS = (
    ("caller", "api"), ("operator", "api"), ("api", "queue 1"), ("api", "tables"), ("queue 1", "function 1"),
    ("function 1", "queue 2"), ("queue 2", "function 2"), ("function 2", "dead letters"), ("function 1", "tables"),
    ("function 2", "tables"), ("function 1", "payloads"), ("supervisor", "queue 2"), ("supervisor", "tables"),
    ("tables", "events"),
)  # fmt: skip


def svg() -> str:
    """Return the drawing."""
    lines: list[str] = []
    for start, end in _ARROWS:
        source, target = PARTS[start].box, PARTS[end].box
        if abs(target.x - source.x) < target.half_width and target.y > source.y:
            # Straight down onto a wide box.
            target = Box(source.x, target.y, target.half_width, target.half_height)
        lines.append(f'<path {arrow(source, target)} data-from="{start}" data-to="{end}"/>')
    for part in PARTS.values():
        x, y = part.box.x, part.box.y
        lines.append(f'<rect {part.box.rect} rx="8"/>')
        lines.append(f'<text x="{x}" y="{y - 2}">{part.title}</text>')
        lines.append(f'<text class="small" x="{x}" y="{y + 15}">{part.note}</text>')
    return drawing(900, 375, lines)
