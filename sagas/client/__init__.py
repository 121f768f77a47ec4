"""A Python client: start, read, cancel and repair sagas over the HTTP API, and call the supervisor."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sagas.client.client import SagaClient
    from sagas.client.operate.dead_letters import DeadLetter, Kept, Pruned
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
        OverviewView,
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
    "OverviewView",
    "Page",
    "Pruned",
    "QueueStats",
    "RecoveryView",
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

_MODULES = (
    "client.client",
    "client.operate.dead_letters",
    "engine.read.answers",
    "engine.read.overviews",
    "engine.read.reports",
)
"""The modules of the names. They are imported on first use: a client that starts a saga needs only the first."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            if hasattr(found := importlib.import_module(f"sagas.{module}"), name):
                return globals().setdefault(name, getattr(found, name))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
