"""A Python client: start, read, cancel and repair sagas over the HTTP API, and call the supervisor."""

from __future__ import annotations

from sagas.client.client import SagaClient
from sagas.client.operate.dead_letters import DeadLetter, Kept, Pruned, Redrive
from sagas.engine.read.answers import (
    AuditEntry,
    ErrorView,
    IncidentList,
    IncidentView,
    LeftOutView,
    Page,
    SagaErrorView,
    SagaView,
    StepView,
    Summary,
    VerificationView,
)
from sagas.engine.read.overviews import (
    BreakerView,
    InFlightGroup,
    InFlightView,
    QueueStats,
    StatsView,
    TypeStats,
    TypeView,
)
from sagas.engine.read.reports import RecoveryView, SweepView

__all__ = [
    "AuditEntry",
    "BreakerView",
    "DeadLetter",
    "ErrorView",
    "InFlightGroup",
    "InFlightView",
    "IncidentList",
    "IncidentView",
    "Kept",
    "LeftOutView",
    "Page",
    "Pruned",
    "QueueStats",
    "RecoveryView",
    "Redrive",
    "SagaClient",
    "SagaErrorView",
    "SagaView",
    "StatsView",
    "StepView",
    "Summary",
    "SweepView",
    "TypeStats",
    "TypeView",
    "VerificationView",
]
