"""Where each page went that moved: the site keeps a stub at its old place."""

from __future__ import annotations

MOVED = {
    "auto-disable": "how-to/auto-disable",
    "circuit-breakers": "how-to/circuit-breaker",
    "cli": "reference/cli",
    "client": "reference/client",
    "console": "operations/console",
    "contributing/testing-elsewhere": "contributing/testing",
    "deadlines": "how-to/deadlines",
    "deploying": "operations/deploying",
    "deploying-changes": "how-to/change-code-in-flight",
    "disaster": "operations/backup-restore",
    "events": "how-to/events",
    "faq": "index",
    "finding": "how-to/finding",
    "guarantees": "concepts/guarantees",
    "limits": "reference/limits",
    "outages": "operations/outages",
    "own-project": "tutorial/first-saga",
    "pausing": "how-to/pausing",
    "protocol": "concepts/protocol",
    "runbook": "operations/runbook",
    "security": "concepts/security-model",
    "states": "concepts/states",
    "sweep": "how-to/sweep",
    "telemetry": "operations/telemetry",
    "testing-elsewhere": "contributing/testing",
    "waiting": "how-to/waiting",
    "why": "concepts/design",
}
