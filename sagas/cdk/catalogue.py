"""The sagas of one service, and the options of their functions, checked together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sagas.authoring.definition import SagaDefinition
from sagas.authoring.saga import definition_of
from sagas.authoring.steps import Step
from sagas.cdk.lanes import Lane
from sagas.cdk.options import FunctionOptions, Isolation
from sagas.errors import DefinitionError

__all__ = ["Catalogue"]

_MOST_STEPS = 40
"""With a queue and a function each, all the steps that a stack's 500 resources have room for, beside the API's."""
_SHARED = "steps"
_WHOLE_SAGA = ""


class Catalogue:
    """Finds definitions and options.

    Args:
        service: the name used in messages.
        saga_classes: of the service.
        functions: options by step, or by saga class for all its steps.
        isolation: ``step`` gives each step a queue and a function of its own, ``saga`` all steps of a saga together.

    Raises:
        DefinitionError: no saga, two of one name, more steps than a stack has room for, options for a step of none of
            them or for a step without a function of its own.
    """

    def __init__(
        self,
        service: str,
        saga_classes: Sequence[type[Any]],
        functions: Mapping[Step[..., Any] | type[Any], FunctionOptions],
        isolation: Isolation = "step",
    ) -> None:
        self._service = service
        self._isolation = isolation
        self.sagas = [definition_of(saga_class) for saga_class in saga_classes]
        self._require_distinct_names()
        self._require_room()
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

    def lanes(self, saga: SagaDefinition) -> list[Lane]:
        """Return the queues and functions a saga has: one for each step, or one for them all."""
        if self._isolation == "saga":
            return [Lane(_SHARED, saga, tuple(saga.steps), self._options_of(saga, _WHOLE_SAGA))]
        return [Lane(step.name, saga, (step,), self._options_of(saga, step.name)) for step in saga.steps]

    def lane_of(self, step: Step[..., Any]) -> tuple[str, str]:
        """Return the saga's name and the id of the lane a step goes through."""
        saga, name = self.locate(step)
        return saga.name, _SHARED if self._isolation == "saga" else name

    def _options_of(self, saga: SagaDefinition, step: str) -> FunctionOptions:
        whole = self._options.get((saga.name, _WHOLE_SAGA), FunctionOptions())
        return self._options.get((saga.name, step), whole)

    def _key(self, step: Step[..., Any] | type[Any]) -> tuple[str, str]:
        if isinstance(step, type):
            return self.definition(step).name, _WHOLE_SAGA
        saga, name = self.locate(step)
        if self._isolation == "saga":
            whole = _name(saga.saga_class)
            raise DefinitionError(
                f'{self._service}: with isolation="saga" step {name} has no function of its own; '
                f"give the options of {whole} instead of {whole}.{name}"
            )
        return saga.name, name

    def _require_room(self) -> None:
        steps = sum(len(saga.steps) for saga in self.sagas)
        if self._isolation == "step" and steps > _MOST_STEPS:
            raise DefinitionError(
                f"{self._service}: {steps} steps with a queue and a function each do not fit in a stack, which takes "
                f'{_MOST_STEPS}; use isolation="saga", or split the sagas over services in several stacks'
            )

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
