"""Where the resources of a saga go: to the service's own stack, or to nested ones when a stack has no room for all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from aws_cdk import CfnParameter, Fn, NestedStack, Stack
from constructs import Construct

from sagas.authoring.definition import SagaDefinition
from sagas.cdk.lanes import Lane

_LANES = 40
"""Lanes of a nested stack. With what a saga has besides they stay under the 500 resources that a stack takes, and under
the 200 outputs by which the service's own stack knows them."""
_LANES_OF_SEVERAL = 30
"""Those of one of several: each lane may send to many others, and their policies must fit in a template's megabyte."""
TOKEN = "Token"  # noqa: S105 - tells services apart, and is no secret


@dataclass(frozen=True, slots=True)
class Home:
    """The place of some lanes of a saga.

    Args:
        scope: of their constructs.
        saga: whose lanes they are.
        lanes: at least one.
        token: tells this service apart, in the names of queues; ``None`` where CloudFormation names them.
        first: whether what the saga has once belongs here too.
    """

    scope: Construct
    saga: SagaDefinition
    lanes: tuple[Lane, ...]
    token: str | None
    first: bool = True

    def part(self, kind: str) -> str:
        """The id of a construct for the saga's resources of a kind, below ``scope``."""
        return kind if self.token else f"{self.saga.name}-{kind}"

    @property
    def steps(self) -> str:
        """The id of the construct of the functions, below ``scope``."""
        return "steps" if self.token else self.saga.name


def homes_of(scope: Construct, saga: SagaDefinition, lanes: Sequence[Lane], *, nested: bool) -> list[Home]:
    """Make the places of a saga's lanes.

    Args:
        scope: the service.
        saga: the saga.
        lanes: all of it.
        nested: whether they are nested stacks: one a saga, or more when it has more than 40 lanes.
    """
    if not nested:
        return [Home(scope, saga, tuple(lanes), None)]
    return [_nested(scope, saga, share, number) for number, share in _shares(lanes)]


def token_of(scope: Construct) -> str:
    """Return 15 characters that tell this service from the others of the account and region, and stay as they are.

    Six are of its place in the app, eight of the id that CloudFormation gave the stack, so that one app can be deployed
    twice.
    """
    stack_id = Fn.select(2, Fn.split("/", Stack.of(scope).stack_id))
    return f"{scope.node.addr[-6:]}-{Fn.select(0, Fn.split('-', stack_id))}"


def _shares(lanes: Sequence[Lane]) -> Iterator[tuple[int, tuple[Lane, ...]]]:
    most = _LANES if len(lanes) <= _LANES else _LANES_OF_SEVERAL
    for number, start in enumerate(range(0, len(lanes), most), start=1):
        yield number, tuple(lanes[start : start + most])


def _nested(service: Construct, saga: SagaDefinition, lanes: tuple[Lane, ...], number: int) -> Home:
    # No saga has a dot in its name, so none clashes with another's second stack.
    id = saga.name if number == 1 else f"{saga.name}.{number}"
    stack = NestedStack(
        service,
        id,
        parameters={TOKEN: token_of(service)},
        description=f"Saga {saga.name}: queues, functions and alarms",
    )
    scope = cast("Construct", stack)
    token = CfnParameter(scope, TOKEN, type="String").value_as_string
    return Home(scope, saga, lanes, token, first=number == 1)
