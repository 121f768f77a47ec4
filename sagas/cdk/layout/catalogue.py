"""The sagas of one service and the options of their functions, checked together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

from sagas.authoring.definition.definition import SagaDefinition, definition_of
from sagas.authoring.steps import Undoable
from sagas.cdk.layout.concurrency import divided
from sagas.cdk.layout.step_groups import SHARED, StepGroup
from sagas.cdk.options.function_options import USUAL, FunctionOptions
from sagas.cdk.options.service_options import ServiceOptions
from sagas.errors import DefinitionError
from sagas.lock.content import check_size

_MOST_OF_A_SAGA = 100
"""A saga has at most this many step functions. With long names, its templates then almost reach the limit of 1 MB."""
_WHOLE_SAGA = ""


@dataclass(frozen=True, slots=True)
class _Shared:
    """Steps, in order, that share a queue and a function. Without ``options``, those of the saga class apply."""

    id: str
    names: tuple[str, ...]
    options: FunctionOptions | None = None


class Catalogue:
    """Finds the definitions of a service's sagas, and the options of their functions. Refuses sagas and options that do
    not go together. ``service`` is the name in messages."""

    def __init__(self, service: str, options: ServiceOptions) -> None:
        self._service = service
        self.service_options = options
        self._usual = options.function_options or FunctionOptions()
        self.sagas = [definition_of(saga_class).with_default(options.auto_disable) for saga_class in options.sagas]
        if not self.sagas:
            raise DefinitionError(f"{service}: a service needs at least one saga")
        first: dict[str, SagaDefinition] = {}
        for saga in self.sagas:
            if saga.name in first:
                classes = f"{_name(first[saga.name].saga_class)} and {_name(saga.saga_class)}"
                raise DefinitionError(f"{service}: two sagas are named {saga.name}: {classes}")
            first[saga.name] = saga
            check_size(saga)
        for saga in self.sagas:
            for child in saga.children:
                # Children are started by this service, so it must have their types.
                if child.name not in first or first[child.name].saga_class is not child.saga_class:
                    fault = f"saga {saga.name} has children of type {_name(child.saga_class)}"
                    raise DefinitionError(f"{service}: {fault}, which is not among its sagas")
        self.shares: dict[str, int] = {}
        """Shares of the service's ``max_concurrency``, by saga and step; empty if the option is not set."""
        self._options: dict[tuple[str, str], FunctionOptions] = {}
        self._shared: dict[tuple[str, str], _Shared] = {}
        """The steps that share a function, by saga type and step."""
        self._read_options(options)
        for saga in self.sagas:
            groups = len(self.groups(saga))  # more would not fit in nested stacks either
            if groups > _MOST_OF_A_SAGA:
                raise DefinitionError(
                    f"{service}: saga {saga.name} has {groups} steps with a function each; the limit is "
                    f"{_MOST_OF_A_SAGA}, as each may send to all others and a template has at most 1 MB; "
                    'use isolation="saga"'
                )
        if options.max_concurrency is not None:
            lanes = {_lane(group): group.options for saga in self.sagas for group in self.groups(saga)}
            self.shares = divided(service, options.max_concurrency, lanes)

    def _read_options(self, options: ServiceOptions) -> None:
        """Find the steps that share a function, and the step or saga that each key of ``functions`` names."""
        for saga in self.sagas if options.isolation == "saga" else ():
            if saga.has_code:
                self._share(saga, _Shared(SHARED, tuple(step.name for step in saga.steps)))
        for step, function in (options.functions or {}).items():
            if isinstance(step, str):
                continue  # the name of one of the service's own functions
            if isinstance(step, tuple):
                self._share_some(cast("tuple[Undoable, ...]", step), function)
                continue
            if isinstance(step, type):
                self._options[self.definition(step).name, _WHOLE_SAGA] = function
                continue
            saga, name = self.locate(step)
            self._options[saga.name, name] = function

    def _share(self, saga: SagaDefinition, shared: _Shared) -> None:
        self._shared |= {(saga.name, name): shared for name in shared.names}

    def _share_some(self, steps: tuple[Undoable, ...], options: FunctionOptions) -> None:
        """Give one queue and one function to steps that ``functions`` names together."""
        located = [self.locate(step) for step in steps]
        saga = located[0][0] if located else self.sagas[0]
        names = tuple(name for _, name in located)
        fault = f"{self._service}: ({', '.join(names)}) cannot share a function"
        if len(set(names)) < 2 or len(set(names)) < len(names):
            raise DefinitionError(f"{fault}: name two steps or more, each once")
        if any(other is not saga for other, _ in located):
            raise DefinitionError(f"{fault}: they belong to different sagas")
        order = [step.name for step in saga.steps if not step.retired or step.name in names]
        places = sorted(order.index(name) for name in names)
        between = [name for name in order[places[0] : places[-1]] if name not in names]
        if between:
            raise DefinitionError(f"{fault}: {', '.join(between)} of saga {saga.name} runs between them")
        shared = tuple(order[place] for place in places)
        for name in shared:
            if (saga.name, name) in self._shared:
                others = ", ".join(self._shared[saga.name, name].names)
                raise DefinitionError(f"{fault}: {name} already shares one with {others}")
        # A step's name contains no hyphen, so this id is never the name of a step.
        self._share(saga, _Shared(f"{shared[0]}-to-{shared[-1]}", shared, options))

    def definition(self, saga_class: type[Any]) -> SagaDefinition:
        for saga in self.sagas:
            if saga.saga_class is saga_class:
                return saga
        names = ", ".join(_name(saga.saga_class) for saga in self.sagas)
        raise DefinitionError(f"{self._service}: {_name(saga_class)} is not among its sagas ({names})")

    def locate(self, step: Undoable) -> tuple[SagaDefinition, str]:
        if not isinstance(step, Undoable):  # pyright: ignore[reportUnnecessaryIsInstance] - users pass strings
            raise DefinitionError(
                f"{self._service}: {step!r} is not a step; name it by its class, like CreateZip.upload"
            )
        if step.owner is None:
            raise DefinitionError(f"{self._service}: {step!r} does not belong to a saga")
        saga = self.definition(step.owner)
        match = next((own for own in saga.steps if own.name == step.stored_name), None)
        if match is None:
            raise DefinitionError(f"{self._service}: saga {saga.name} has no step {step.stored_name}")
        if not match.has_lane and (saga.name, match.name) not in self._shared:
            raise DefinitionError(f"{self._service}: {match.name} only waits, so it has no queue and no function")
        return saga, match.name

    def groups(self, saga: SagaDefinition) -> list[StepGroup]:
        """Return the step groups of a saga: one for each step, or one for several steps that share a function."""
        groups = dict[str, StepGroup]()
        for step in saga.steps:
            shared = self._shared.get((saga.name, step.name))
            if shared is not None and shared.id not in groups:
                steps = tuple(map(saga.step, shared.names))
                groups[shared.id] = StepGroup(shared.id, saga, steps, self._options_shared(saga, shared))
            elif shared is None and step.has_lane:  # a step that only waits has no queue and no function
                groups[step.name] = StepGroup(step.name, saga, (step,), self._options_of(saga, step.name))
        for id, group in groups.items():
            share = self.shares.get(_lane(group))
            if share is not None:
                groups[id] = replace(group, options=replace(group.options, maximum_concurrency=share, weight=None))
        return list(groups.values())

    @property
    def gradual(self) -> bool:
        """Whether CodeDeploy moves the functions to new code."""
        return self.service_options.deployment is not None

    @property
    def works_now(self) -> bool:
        """Whether the service has the work queue ``now``."""
        return any(saga.works_now for saga in self.sagas)

    @property
    def families(self) -> frozenset[str]:
        """The names of the sagas that have children or are children."""
        parents = [saga for saga in self.sagas if saga.children]
        return frozenset(member.name for saga in parents for member in (saga, *saga.children))

    def group_of(self, step: Undoable) -> tuple[str, str]:
        saga, name = self.locate(step)
        shared = self._shared.get((saga.name, name))
        return saga.name, name if shared is None else shared.id

    def _options_shared(self, saga: SagaDefinition, shared: _Shared) -> FunctionOptions:
        """Return the options of the function that steps share, with the largest memory that any of them asks for."""
        options = (shared.options or self._options_of(saga, _WHOLE_SAGA)).over(USUAL)
        for name in shared.names:
            own = self._options.get((saga.name, name))
            if own is None:
                continue
            if replace(own, memory_size=None) != FunctionOptions():
                others = ", ".join(other for other in shared.names if other != name)
                together = (
                    f"the saga class {_name(saga.saga_class)}" if shared.options is None else "the steps together"
                )
                raise DefinitionError(
                    f"{self._service}: step {name} shares its function with {others}, so its only own option can be "
                    f"memory_size; give the others to {together}"
                )
            sizes = (options.memory_size, own.memory_size)
            options = replace(options, memory_size=max(size for size in sizes if size is not None))
        return options

    def _options_of(self, saga: SagaDefinition, step: str) -> FunctionOptions:
        whole = self._options.get((saga.name, _WHOLE_SAGA), self._usual)
        return self._options.get((saga.name, step), whole).over(USUAL)


def _name(saga_class: type[Any]) -> str:
    return getattr(saga_class, "__qualname__", repr(saga_class))


def _lane(group: StepGroup) -> str:
    return f"{group.saga.name} {group.id}"
