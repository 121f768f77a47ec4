"""The sagas of one service, and the options of their steps, checked together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagas.authoring.definition import SagaDefinition
from sagas.authoring.saga import definition_of
from sagas.authoring.steps import Step
from sagas.cdk.options import FunctionOptions
from sagas.errors import DefinitionError

__all__ = ["Catalogue"]


class Catalogue:
    """Finds definitions and options.

    Args:
        service: the name used in messages.
        saga_classes: of the service.
        functions: options by step.

    Raises:
        DefinitionError: no saga, two of one name, or options for a step of none of them.
    """

    def __init__(
        self, service: str, saga_classes: Sequence[type[Any]], functions: Mapping[Step[..., Any], FunctionOptions]
    ) -> None:
        self._service = service
        self.sagas = [definition_of(saga_class) for saga_class in saga_classes]
        self._require_distinct_names()
        self._options = {self._key(step): options for step, options in functions.items()}

    def definition(self, saga_class: type[Any]) -> SagaDefinition:
        """Return the definition of a saga class of this service."""
        for saga in self.sagas:
            if saga.saga_class is saga_class:
                return saga
        raise DefinitionError(f"{self._service}: {_name(saga_class)} is not among its sagas ({self._names()})")

    def locate(self, step: Step[..., Any]) -> tuple[SagaDefinition, str]:
        """Return the saga a step belongs to, and the step's name."""
        if not isinstance(step, Step):  # pyright: ignore[reportUnnecessaryIsInstance] - users pass strings
            raise DefinitionError(
                f"{self._service}: {step!r} is not a step; name it by its class, like CreateZip.upload"
            )
        if step.owner is None:
            raise DefinitionError(f"{self._service}: {step!r} belongs to no saga")
        saga = self.definition(step.owner)
        if all(own.name != step.name for own in saga.steps):
            raise DefinitionError(f"{self._service}: saga {saga.name} has no step {step.name}")
        return saga, step.name

    def options(self, saga: SagaDefinition, step: str) -> FunctionOptions:
        """Return the options of a step's function; the defaults when none were given."""
        return self._options.get((saga.name, step), FunctionOptions())

    def _key(self, step: Step[..., Any]) -> tuple[str, str]:
        saga, name = self.locate(step)
        return saga.name, name

    def _require_distinct_names(self) -> None:
        if not self.sagas:
            raise DefinitionError(f"{self._service}: a service needs at least one saga")
        first: dict[str, SagaDefinition] = {}
        for saga in self.sagas:
            if saga.name in first:
                classes = f"{_name(first[saga.name].saga_class)} and {_name(saga.saga_class)}"
                raise DefinitionError(f"{self._service}: two sagas are called {saga.name}: {classes}")
            first[saga.name] = saga

    def _names(self) -> str:
        return ", ".join(_name(saga.saga_class) for saga in self.sagas)


def _name(saga_class: type[Any]) -> str:
    return getattr(saga_class, "__qualname__", repr(saga_class))
