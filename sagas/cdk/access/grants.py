"""Who may call a service: the rights of callers and operators, by saga type, as permissions of IAM."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, cast

from aws_cdk import CfnElement, NestedStack, Stack
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from sagas.authoring.definition.definition import SagaDefinition
from sagas.cdk.data.encryption import via_services
from sagas.cdk.data.queues import SagaQueues
from sagas.cdk.layout.acknowledge import acknowledge_objects
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.options.service_options import AnyKey
from sagas.errors import DefinitionError
from sagas.operations import OPERATIONS

Grantee = iam.IGrantable | iam.Role | iam.User | iam.Group | iam.ManagedPolicy


@dataclass(frozen=True, slots=True)
class Right:
    """What a right lets one call: methods and paths of the API, below the stage and the mount.

    IAM's ``*`` spans slashes. So no pattern may end where another right's path goes on: that of a start, whose path
    every operation's begins with, takes no ``*`` for the name.

    Args:
        of_type: for each saga type that was named; ``{type}`` is its name.
        of_all: where none was named, in their place; ``of_type`` of each type if there are none.
    """

    of_type: tuple[str, ...]
    of_all: tuple[str, ...] = ()


def rights() -> dict[str, Right]:
    """Return the rights with the operations that they let call."""
    found = dict[str, Right]()
    for name in dict.fromkeys(operation.right for operation in OPERATIONS):
        mine = [operation for operation in OPERATIONS if operation.right == name]
        others = [operation.pattern() for operation in OPERATIONS if operation.right != name]
        of_type = (operation.pattern(of_type=True) for operation in mine)
        # One pattern for all types may not let through what belongs to another right.
        of_all = (operation.pattern() for operation in mine if not fnmatch.filter(others, operation.pattern()))
        found[name] = Right(_fewest(one for one in of_type if "{type}" in one), _fewest(of_all))
    return found


def _fewest(patterns: Iterable[str]) -> tuple[str, ...]:
    """Leave out each pattern that another one covers."""
    all_of_them = [*dict.fromkeys(patterns)]
    return tuple(
        one for one in all_of_them if not any(other != one and fnmatch.fnmatchcase(one, other) for other in all_of_them)
    )


RIGHTS: Mapping[str, Right] = rights()
"""Each method of the API belongs to one of these, but for callbacks, which ask for no authorization."""

_DEAD_LETTERS = (
    *("sqs:ReceiveMessage", "sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
    *("sqs:StartMessageMoveTask", "sqs:ListMessageMoveTasks"),
)
_FIND_PARTS = ("cloudformation:ListStackResources", "cloudformation:GetTemplate")
_ARNS = 20
"""In a statement: the CDK moves whole statements to further policies when one grows beyond what IAM takes."""
_MOST_NAMED = 40
"""Queues that are named one by one: a role's own policies have 10,240 characters."""
_MANY = "Policies have no room for the names of all; the pattern has those of this service alone."
_WILDCARD = "A saga's id is not known beforehand; the path names what may be done, and of which type."


class Access:
    """Grants the rights of a service. Each names saga classes of the service; without any, all are meant.

    A right holds at the API, for callers that IAM authorizes; see ``docs/concepts/security-model.md`` for the policies.

    Args:
        service: the construct of the service.
        catalogue: of its sagas.
        queues: by saga.
        api: where the rights hold.
        supervisor: whom operators may call.
        let_send: lets a principal send to the command queue, once there is one.
    """

    def __init__(
        self,
        service: Construct,
        *,
        catalogue: Catalogue,
        queues: Mapping[str, SagaQueues],
        api: apigateway.RestApi,
        supervisor: lambda_.Function,
        let_send: Callable[[Grantee], None],
    ) -> None:
        self._service, self._catalogue, self._queues = service, catalogue, queues
        self._options = catalogue.service_options
        self._api, self._supervisor, self._let_send = api, supervisor, let_send

    def start(self, grantee: Grantee, saga_classes: Sequence[type[Any]]) -> iam.Grant:
        """Let a principal start sagas, at the API and, where all types are meant, by commands."""
        granted = self.grant("start", grantee, saga_classes)
        if not saga_classes or len(set(saga_classes)) == len(self._catalogue.sagas):
            self._let_send(grantee)
        return granted

    def cancel(self, grantee: Grantee, saga_classes: Sequence[type[Any]]) -> iam.Grant:
        """Let a principal cancel sagas of types that can be cancelled."""
        for saga in self._named(saga_classes):
            if not saga.cancellable:
                message = f"saga {saga.name} is declared with cancellable=False: there is no cancel to grant"
                raise DefinitionError(f"{self._service.node.id}: {message}")
        return self.grant("cancel", grantee, saga_classes)

    def operate(self, grantee: Grantee, saga_classes: Sequence[type[Any]]) -> iam.Grant:
        """Let a principal operate sagas at the API, handle their dead letters and find both by the templates."""
        granted = self.grant("operate", grantee, saga_classes)
        scope = cast("Construct", grantee) if Construct.is_construct(grantee) else self._service
        more: list[tuple[Sequence[str], list[str]]] = [(_FIND_PARTS, self._stacks(grantee))]
        queues = [self._queues[saga.name] for saga in self._named(saga_classes) or self._catalogue.sagas]
        more.append((_DEAD_LETTERS, [own.arn_of_letters(scope) for own in queues]))
        # Of many queues it is one pattern a saga: policies have no room for hundreds.
        many = sum(len(own.by_group) for own in queues) > _MOST_NAMED
        names, sent_to = [saga.name for saga in self._catalogue.sagas], list[str]()
        for own in queues:
            pattern = own.pattern(scope, names) if many else None
            if pattern is not None:
                acknowledge_objects(cast("iam.IGrantable", grantee), pattern, _MANY)
            sent_to += own.arns(scope) if pattern is None else [pattern]
        more.append((("sqs:SendMessage",), sent_to))
        if not saga_classes:
            function = self._supervisor.function_arn
            more.append((("lambda:InvokeFunction",), [function, f"{function}:{self._options.alias}"]))
        further = [one for actions, arns in more for one in allowed(grantee, actions, arns)]
        return _combined([granted, *further, *let_use_queues_key(self._options.encryption_key, grantee)])

    def grant(self, right: str, grantee: Grantee, saga_classes: Sequence[type[Any]]) -> iam.Grant:
        """Let a principal call what of the API belongs to a right."""
        named, mount = self._named(saga_classes), self._options.mount
        there = mount and mount.default_method_options and mount.default_method_options.authorizer
        if self._options.authorizer or there:
            told = "its API is authorized by an authorizer of yours, which decides: permissions of IAM have no effect"
            raise DefinitionError(f"{self._service.node.id}: {told}")
        patterns = [] if named else list(RIGHTS[right].of_all)
        names = [saga.name for saga in named or self._catalogue.sagas]
        patterns = patterns or [path.format(type=name) for name in names for path in RIGHTS[right].of_type]
        base = mount.path.rstrip("/") if mount is not None else ""
        try:
            stage = self._api.deployment_stage.stage_name
        except RuntimeError:  # an API of one's own that is deployed by other means: whatever stages it has
            stage = "*"
        arns = list[str]()
        for pattern in patterns:
            method, _, path = pattern.partition("/")
            arns.append(self._api.arn_for_execute_api(method, f"{base}/{path}", stage))
            if "*" in arns[-1]:
                acknowledge_objects(cast("iam.IGrantable", grantee), arns[-1], _WILDCARD)
        return _combined(allowed(grantee, ["execute-api:Invoke"], arns))

    def _named(self, saga_classes: Iterable[type[Any]]) -> list[SagaDefinition]:
        return [self._catalogue.definition(saga_class) for saga_class in saga_classes]

    def _stacks(self, grantee: Grantee) -> list[str]:
        """The ARNs of the stacks that hold the service. The outermost is asked for by its name, without its id."""
        stack = Stack.of(self._service)
        named = stack.format_arn(service="cloudformation", resource="stack", resource_name=f"{stack.stack_name}/*")
        acknowledge_objects(cast("iam.IGrantable", grantee), named, "A stack's id is not known beforehand.")
        nested = [cast("Stack", one) for one in self._service.node.find_all() if NestedStack.is_nested_stack(one)]
        if len(nested) <= _ARNS:
            return [named, *(one.stack_id for one in nested)]
        ids = [stack.get_logical_id(cast("CfnElement", one.nested_stack_resource)) for one in nested]
        # CloudFormation calls a nested stack by the outer one, its logical id and what is random.
        same = takewhile(lambda letters: letters[0] == letters[1], zip(min(ids), max(ids), strict=False))
        name = f"{stack.stack_name}-{''.join(letter for letter, _ in same)}*/*"
        inner = stack.format_arn(service="cloudformation", resource="stack", resource_name=name)
        acknowledge_objects(cast("iam.IGrantable", grantee), inner, _MANY)
        return [named, inner]


def allowed(grantee: Grantee, actions: Sequence[str], arns: Sequence[str]) -> list[iam.Grant]:
    """Let a principal do something with resources, in statements that are not too long."""
    to, parts = cast("iam.IGrantable", grantee), [arns[start : start + _ARNS] for start in range(0, len(arns), _ARNS)]
    return [iam.Grant.add_to_principal(grantee=to, actions=list(actions), resource_arns=list(part)) for part in parts]


def let_use_queues_key(key: AnyKey | None, grantee: Grantee) -> list[iam.Grant]:
    """Let a principal send to queues and receive from them, if they are encrypted by a key of the customer's."""
    if key is None:
        return []
    to, actions, via = cast("iam.IGrantable", grantee), ["kms:Decrypt", "kms:GenerateDataKey"], via_services("sqs")
    return [iam.Grant.add_to_principal(grantee=to, actions=actions, resource_arns=[key.key_arn], conditions=via)]


def _combined(grants: Sequence[iam.Grant]) -> iam.Grant:
    combined = grants[0]
    for one in grants[1:]:
        combined = combined.combine(one)
    return combined
