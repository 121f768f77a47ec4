"""Sagas from Python: what the API offers, for code that has access to the tables and queues themselves."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from sagas.authoring.codec import encode
from sagas.authoring.saga import definition_of
from sagas.engine.assembly import Deployment, from_environment

__all__ = ["SagaClient"]


class SagaClient:
    """Starts, reads, cancels and repairs sagas.

    Args:
        deployment: the tables and queues to work on.
        actor: who acts, for the audit trail.
    """

    def __init__(self, deployment: Deployment, actor: str = "client") -> None:
        self._deployment = deployment
        self._actor = actor

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] | None = None, actor: str = "client") -> SagaClient:
        """Return a client for what the variables of a function of the service describe.

        Args:
            environment: ``SAGAS_TABLE``, ``SAGAS_AUDIT_TABLE``, ``SAGAS_CLASSES``, ``SAGAS_QUEUES`` and optional ones;
                the process's own by default.
            actor: who acts.

        Raises:
            SagaError: a variable is missing.
        """
        return cls(from_environment(os.environ if environment is None else environment), actor)

    def start(self, saga: type[Any], request: object, *, key: str | None = None) -> str:
        """Start a saga and return its id.

        Args:
            saga: the saga class.
            request: an instance of its request type.
            key: an idempotency key: the same key and request start one saga.

        Raises:
            InvalidRequest: the request or the key does not fit.
            Unavailable: try again, with the same key.
        """
        definition = definition_of(saga)
        data = encode(request, definition.request_type)
        return self._deployment.starter.start(definition.name, data, key=key, actor=self._actor).state.saga_id

    def show(self, name: str, saga_id: str) -> dict[str, Any]:
        """Return a saga with its steps, as the API shows it.

        Raises:
            NotFound: there is none.
        """
        return self._deployment.reader.show(name, saga_id)

    def audit(self, name: str, saga_id: str) -> list[dict[str, Any]]:
        """Return a saga's whole audit trail.

        Raises:
            NotFound: there is none.
        """
        entries, more = self._deployment.reader.audit(name, saga_id, 100, 0)
        while more is not None:
            further, more = self._deployment.reader.audit(name, saga_id, 100, more)
            entries += further
        return entries

    def cancel(self, name: str, saga_id: str) -> dict[str, Any]:
        """Ask for a saga to be cancelled; return it.

        Raises:
            NotFound: there is none.
            Conflict: it is over.
        """
        state = self._deployment.operations.cancel(name, saga_id, self._actor)
        return self.show(name, state.saga_id)
