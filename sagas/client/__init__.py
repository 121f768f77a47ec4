"""Sagas from Python, over the HTTP API: start, read, cancel, repair."""

from __future__ import annotations

from sagas.client.client import SagaClient
from sagas.client.dead_letters import DeadLetter, Redrive
from sagas.client.views import AuditEntry, DefinitionView, ErrorView, Page, SagaView, StepView, Summary

__all__ = [
    "AuditEntry",
    "DeadLetter",
    "DefinitionView",
    "ErrorView",
    "Page",
    "Redrive",
    "SagaClient",
    "SagaView",
    "StepView",
    "Summary",
]
