"""An operator's place: the command, run in the stack's directory, and the client."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from typing import Any

from sagas import SagaClient
from tests.e2e.stack import Stack


@dataclass(frozen=True)
class Desk:
    """What an operator of a stack has at hand."""

    stack: Stack
    client: SagaClient

    def sagas(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run ``sagas`` to its end."""
        return self.stack.sagas(*arguments)

    def json(self, *arguments: str) -> Any:
        """Run ``sagas ... --json``, which must succeed, and return what it prints."""
        ended = self.sagas(*arguments, "--json")
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)
