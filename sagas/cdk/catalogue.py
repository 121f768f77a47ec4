"""The sagas of one service, and the options of their functions, checked together."""

from __future__ import annotations

from typing import Any

from sagas.authoring.definition import SagaDefinition
from sagas.authoring.saga import definition_of
from sagas.authoring.steps import Step
from sagas.cdk.counting import counted
from sagas.cdk.options import FunctionOptions, ServiceOptions
from sagas.cdk.step_groups import StepGroup
from sagas.errors import DefinitionError

_MOST_OF_A_SAGA = 100
"""Steps with a function each. With the longest names the templates of its nested stacks near the 1 MB there is."""
SHARED = "steps"
"""The id of the group of all steps of a saga."""
_WHOLE_SAGA = ""


class Catalogue:
    """Finds definitions and options.

    Args:
        service: the name used in messages.
        options: of the service.

    Raises:
        DefinitionError: no saga, two of one name, too many steps, options for a step of none of them or for a step
            without a function of its own.
    """

    def __init__(self, service: str, options: ServiceOptions) -> None:
        self._service = service
        self._usual = options.function_options or FunctionOptions()
        self._isolation = options.isolation
        self.sagas = [definition_of(saga_class).with_default(options.auto_disable) for saga_class in options.sagas]
        if not self.sagas:
            raise DefinitionError(f"{service}: a service needs at least one saga")
        first: dict[str, SagaDefinition] = {}
        for saga in self.sagas:
            if saga.name in first:
                classes = f"{_name(first[saga.name].saga_class)} and {_name(saga.saga_class)}"
                raise DefinitionError(f"{service}: two sagas are called {saga.name}: {classes}")
            first[saga.name] = saga
        if self._isolation == "step":
            self._require_short_sagas()
        self._options: dict[tuple[str, str], FunctionOptions] = {}
        for step, one in (options.functions or {}).items():
            if isinstance(step, type):
                self._options[self.definition(step).name, _WHOLE_SAGA] = one
                continue
            saga, name = self.locate(step)
            if self._isolation == "saga":
                whole = _name(saga.saga_class)
                raise DefinitionError(
                    f'{service}: with isolation="saga" step {name} has no function of its own; '
                    f"give the options of {whole} instead of {whole}.{name}"
                )
            self._options[saga.name, name] = one

    def definition(self, saga_class: type[Any]) -> SagaDefinition:
        """Return the definition of a saga class of this service."""
        for saga in self.sagas:
            if saga.saga_class is saga_class:
                return saga
        names = ", ".join(_name(saga.saga_class) for saga in self.sagas)
        raise DefinitionError(f"{self._service}: {_name(saga_class)} is not among its sagas ({names})")

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

    def groups(self, saga: SagaDefinition) -> list[StepGroup]:
        """Return the queues and functions a saga has: one for each step, or one for them all."""
        if self._isolation == "saga":
            return [StepGroup(SHARED, saga, tuple(saga.steps), self._options_of(saga, _WHOLE_SAGA))]
        return [StepGroup(step.name, saga, (step,), self._options_of(saga, step.name)) for step in saga.steps]

    def count(self, *, gradual: bool) -> tuple[int, int]:
        """Return the resources of the service, and those that stay in its stack when functions are in nested ones."""
        return counted([len(self.groups(saga)) for saga in self.sagas], gradual=gradual)

    def group_of(self, step: Step[..., Any]) -> tuple[str, str]:
        """Return the saga's name and the id of the group a step goes through."""
        saga, name = self.locate(step)
        return saga.name, SHARED if self._isolation == "saga" else name

    def _options_of(self, saga: SagaDefinition, step: str) -> FunctionOptions:
        whole = self._options.get((saga.name, _WHOLE_SAGA), self._usual)
        return self._options.get((saga.name, step), whole)

    def _require_short_sagas(self) -> None:
        """What not even nested stacks make room for."""
        for saga in self.sagas:
            if len(saga.steps) > _MOST_OF_A_SAGA:
                raise DefinitionError(
                    f"{self._service}: saga {saga.name} has {len(saga.steps)} steps. With a function each "
                    f"{_MOST_OF_A_SAGA} are the most, as each must be permitted to send to all the others and a "
                    'template has a megabyte; use isolation="saga"'
                )


def _name(saga_class: type[Any]) -> str:
    return getattr(saga_class, "__qualname__", repr(saga_class))
