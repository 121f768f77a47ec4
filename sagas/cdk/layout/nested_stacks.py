"""Chooses the stacks of a saga's resources: the service's own stack, or nested stacks if it has too little room.

Deployed queues stay in their stack, because they contain messages. Functions and alarms may move at any time, so only
their stack depends on the number of functions.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

from aws_cdk import Annotations, CfnParameter, CfnResource, Fn, NestedStack, Stack
from constructs import Construct

from sagas.authoring.definition.definition import SagaDefinition
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.step_groups import StepGroup
from sagas.errors import DefinitionError

_GROUPS = 30
"""Step groups per nested stack. Each may send to many queues, and all policies must fit in a template of 1 MB."""
MOST_RESOURCES = 480
"""The service has at most this many resources in its own stack. CloudFormation allows 500 per stack."""
MOST_OF_ONE_STACK = 394
"""A service with more resources than this gets nested stacks. Smaller ones leave room for the app's own resources."""
_MOST_NAMES = 700
"""A service whose roles name queues more often than this gets nested stacks, too: a name takes almost a kilobyte, and a
template has room for a megabyte."""
MOST_AT_ONCE = 2_500
"""CloudFormation can change at most this many resources of nested stacks in one operation."""
_FUNCTIONS = 3
"""Every service has this many functions besides those of steps: for the API, the supervisor and ``bulk``."""
MOST_IN_ROLE = 20
"""The most queues that a role names in itself."""
OF_SERVICE = 30
"""Resources of every service, without routes: tables, bucket, layer, log, API; and these functions."""
_ALARMS = 4
_ALARMS_BY_STEP = 16
"""Alarms of every service."""
OF_QUEUE = 2
"""Resources per queue: the queue and its policy."""
_OF_FUNCTION = 5
"""Resources per function: role, function, version, alias and event source. By step, it also has two alarms."""
TOKEN = "Token"  # noqa: S105 - identifies a service, and is not a secret


@dataclass(frozen=True, slots=True)
class Placement:
    """The stack, as a scope, of the functions and alarms of some step groups of a saga. It has no groups if there is
    room only for the saga's queues. ``token`` identifies this service in a nested stack; it is ``None`` in the
    service's own stack. ``saga_wide``: whether the alarms of the whole saga are also in this stack."""

    scope: Construct
    saga: SagaDefinition
    groups: tuple[StepGroup, ...]
    token: str | None
    saga_wide: bool = True

    def id_of(self, kind: str) -> str:
        """Return the id, below ``scope``, of the construct for the saga's resources of one kind."""
        return kind if self.token else f"{self.saga.name}-{kind}"

    @property
    def functions_id(self) -> str:
        return "steps" if self.token else self.saga.name


@dataclass(frozen=True, slots=True)
class Layout:
    """The stacks of a saga's resources: the scope and the id of its queues, and one placement or more. ``token`` is the
    suffix of the service's queue names, for use in the service's own stack."""

    saga: SagaDefinition
    token: str
    queues: tuple[Construct, str]
    placements: tuple[Placement, ...]

    @property
    def groups(self) -> list[StepGroup]:
        return [group for placement in self.placements for group in placement.groups]

    def token_in(self, scope: Construct) -> str | None:
        """Return the token for use in the nested stack of ``scope``; ``None`` if it is not a stack of the saga."""
        if self.placements[0].token is None:
            return None
        stack = Stack.of(scope)
        return next((placement.token for placement in self.placements if placement.scope is stack), None)


def layouts_of(scope: Construct, catalogue: Catalogue, parts: tuple[int, int]) -> list[Layout]:
    """Create the layouts of all sagas with code. Without the option ``nested_stacks``, sagas move to nested stacks only
    if the stack has no room. For ``parts``, see :func:`~sagas.cdk.layout.nested_stacks.counted`."""
    service = catalogue.service_options.service
    nested = catalogue.service_options.nested_stacks
    together, alone = counted(catalogue, parts)
    if nested is None and alone > MOST_RESOURCES:
        raise DefinitionError(
            f"{service}: a stack has no room for all its queues; set nested_stacks=True if it is not deployed yet, "
            "else see docs/operations/deploying.md"
        )
    if together > MOST_AT_ONCE and nested is not False:
        message = f"it has about {together:,} resources; CloudFormation's limit for an operation is {MOST_AT_ONCE:,}"
        Annotations.of(scope).add_info(f"{service}: {message}; add some of its sagas in a second deployment")
    token = service_token(scope)
    if nested is None:
        nested = together > MOST_OF_ONE_STACK or _names(catalogue) > _MOST_NAMES
    return [_layout_of(scope, saga, catalogue, token, nested=nested) for saga in catalogue.sagas if saga.has_code]


def _layout_of(scope: Construct, saga: SagaDefinition, catalogue: Catalogue, token: str, *, nested: bool) -> Layout:
    groups = catalogue.groups(saga)
    nested_queues = catalogue.service_options.nested_stacks is True
    in_service = (scope, f"{saga.name}-queues")
    if not nested:
        return Layout(saga, token, in_service, (Placement(scope, saga, tuple(groups), None),))
    taken = alarms_of(saga, catalogue)
    taken += OF_QUEUE * (len(groups) + 1) if nested_queues else 0
    first = min(_GROUPS, (MOST_RESOURCES - taken) // of_function(len(groups), catalogue))
    starts = [0, *range(first, len(groups), _GROUPS)]
    placements: list[Placement] = []
    for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(groups)], strict=True), start=1):
        # A saga type contains no dot, so the id of a second stack is never the id of another saga's stack.
        id = saga.name if number == 1 else f"{saga.name}.{number}"
        what = "Queues, functions" if nested_queues and number == 1 else "Functions"
        stack = NestedStack(scope, id, parameters={TOKEN: token}, description=f"{what} and alarms of saga {saga.name}")
        within = cast("Construct", stack)
        if nested_queues and placements:
            # The functions of this stack refer to queues of the first stack only by name.
            first = Stack.of(placements[0].scope).nested_stack_resource
            cast("CfnResource", stack.nested_stack_resource).add_resource_dependency(cast("CfnResource", first))
        parameter = CfnParameter(within, TOKEN, type="String").value_as_string
        placements.append(Placement(within, saga, tuple(groups[start:end]), parameter, saga_wide=number == 1))
    queues = (placements[0].scope, "queues") if nested_queues else in_service
    return Layout(saga, token, queues, tuple(placements))


def service_token(scope: Construct) -> str:
    """Return 15 characters that identify this service in the account and region, and never change. Six come from the
    service's place in the app, eight from the id of the stack, so one app can be deployed twice."""
    stack_id = Fn.select(2, Fn.split("/", Stack.of(scope).stack_id))
    return f"{scope.node.addr[-6:]}-{Fn.select(0, Fn.split('-', stack_id))}"


def alarms_of(saga: SagaDefinition, catalogue: Catalogue) -> int:
    """Count the alarms of a saga type."""
    by_options = [
        saga.auto_disable is not None,
        any(step.circuit_breaker is not None for step in saga.steps),
        *(2 * [saga.orphans is not None]),
    ]
    few = 4 if catalogue.service_options.alarms_by_step else 2
    return few + catalogue.gradual + sum(by_options)


def of_function(groups: int, catalogue: Catalogue) -> int:
    """Count the resources of a step group's function, including its alarms."""
    alarms = 2 if catalogue.service_options.alarms_by_step else 0
    return _OF_FUNCTION + alarms + (1 if catalogue.gradual else 0) + _policies(groups)


def _policies(queues: int) -> int:
    """Count the policies next to a role that names this many queues of steps: up to 20 fit in the role itself."""
    return 0 if queues <= MOST_IN_ROLE else 1 + max(0, math.ceil((queues - 40) / 20))


def _names(catalogue: Catalogue) -> int:
    """Count the names of queues in roles: a step's function names all queues of its saga, and others name all."""
    groups = [len(catalogue.groups(saga)) for saga in catalogue.sagas if saga.has_code]
    return sum(count * count for count in groups) + _FUNCTIONS * sum(groups)


def counted(catalogue: Catalogue, parts: tuple[int, int]) -> tuple[int, int]:
    """Count the resources of a service. Returns two numbers: those in all stacks, and those that remain in the
    service's own stack if functions and alarms are nested. The second has room for later parts. ``parts`` has both
    numbers for the service's parts."""
    options = catalogue.service_options
    sagas = [saga for saga in catalogue.sagas if saga.has_code]
    groups = [len(catalogue.groups(saga)) for saga in sagas]
    queues = OF_QUEUE * (sum(groups) + len(groups))
    functions = sum(of_function(count, catalogue) * count for count in groups)
    stacks = sum(1 + count // 20 for count in groups)
    # CodeDeploy needs an application, a role, and a group per function. A network needs a security group.
    functions += _FUNCTIONS * _policies(sum(groups))
    alarms = sum(alarms_of(saga, catalogue) for saga in sagas)
    once = OF_SERVICE + (_ALARMS_BY_STEP if options.alarms_by_step else _ALARMS)
    once += (2 + _FUNCTIONS if catalogue.gradual else 0) + (1 if options.network else 0) + options.dashboard
    together, later = parts
    return once + together + queues + functions + alarms, once + later + queues + stacks
