"""Where the resources of a saga go: to the service's own stack, or to nested ones when a stack has no room for all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from aws_cdk import CfnParameter, Fn, NestedStack, Stack
from constructs import Construct

from sagas.authoring.definition import SagaDefinition
from sagas.cdk.step_groups import StepGroup

_GROUPS = 40
"""Step groups of a nested stack. With what a saga has besides they stay under the 500 resources that a stack takes, and
under the 200 outputs by which the service's own stack knows them."""
_GROUPS_OF_SEVERAL = 30
"""Those of one of several: each group may send to many others, and their policies must fit in a template's megabyte."""
TOKEN = "Token"  # noqa: S105 - tells services apart, and is no secret


@dataclass(frozen=True, slots=True)
class Placement:
    """The place of some step groups of a saga.

    Args:
        scope: of their constructs.
        saga: whose they are.
        groups: at least one.
        token: tells this service apart, in the names of queues; ``None`` where CloudFormation names them.
        saga_wide: whether what the saga has once, its dead-letter queue and its alarms, belongs here too.
    """

    scope: Construct
    saga: SagaDefinition
    groups: tuple[StepGroup, ...]
    token: str | None
    saga_wide: bool = True

    def id_of(self, kind: str) -> str:
        """The id of a construct for the saga's resources of a kind, below ``scope``."""
        return kind if self.token else f"{self.saga.name}-{kind}"

    @property
    def functions_id(self) -> str:
        """The id of the construct of the functions, below ``scope``."""
        return "steps" if self.token else self.saga.name


def placements_of(
    scope: Construct, saga: SagaDefinition, groups: Sequence[StepGroup], *, nested: bool
) -> list[Placement]:
    """Make the places of a saga's step groups.

    Args:
        scope: the service.
        saga: the saga.
        groups: all of them.
        nested: whether they are nested stacks: one a saga, or more when it has more than 40 groups.
    """
    if not nested:
        return [Placement(scope, saga, tuple(groups), None)]
    most = _GROUPS if len(groups) <= _GROUPS else _GROUPS_OF_SEVERAL
    placements: list[Placement] = []
    for number, start in enumerate(range(0, len(groups), most), start=1):
        # No saga has a dot in its name, so none clashes with another's second stack.
        id = saga.name if number == 1 else f"{saga.name}.{number}"
        parameters = {TOKEN: service_token(scope)}
        description = f"Saga {saga.name}: queues, functions and alarms"
        stack = cast("Construct", NestedStack(scope, id, parameters=parameters, description=description))
        token = CfnParameter(stack, TOKEN, type="String").value_as_string
        placements.append(Placement(stack, saga, tuple(groups[start : start + most]), token, saga_wide=number == 1))
    return placements


def service_token(scope: Construct) -> str:
    """Return 15 characters that tell this service from the others of the account and region, and stay as they are.

    Six are of its place in the app, eight of the id that CloudFormation gave the stack, so that one app can be deployed
    twice.
    """
    stack_id = Fn.select(2, Fn.split("/", Stack.of(scope).stack_id))
    return f"{scope.node.addr[-6:]}-{Fn.select(0, Fn.split('-', stack_id))}"
