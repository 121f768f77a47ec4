"""The rights of callers and operators, by saga type, as IAM permissions."""

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
from sagas.cdk.access.sizes import Fitting
from sagas.cdk.data.encryption import via_services
from sagas.cdk.data.queues import SagaQueues
from sagas.cdk.layout.acknowledge import acknowledge_objects
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.options.service_options import AnyKey
from sagas.errors import DefinitionError
from sagas.messaging.routes import DEAD_LETTERS
from sagas.operations import OPERATIONS

Grantee = iam.IGrantable | iam.Role | iam.User | iam.Group | iam.ManagedPolicy | iam.Policy


@dataclass(frozen=True, slots=True)
class Right:
    """The methods and paths of the API that a right covers, below the stage and the mount.

    IAM's ``*`` also matches slashes, so no pattern may match a path of another right. Every path begins with the path
    of a start, so a start's pattern has no ``*`` in place of the type.

    Args:
        of_type: patterns for one saga type, with ``{type}`` in place of its name.
        of_all: patterns for all types together. If empty, ``of_type`` is used for each type.
    """

    of_type: tuple[str, ...]
    of_all: tuple[str, ...] = ()


def rights() -> dict[str, Right]:
    """Return each right by name, with the patterns of its operations."""
    result = dict[str, Right]()
    for name in dict.fromkeys(operation.right for operation in OPERATIONS):
        mine = [operation for operation in OPERATIONS if operation.right == name]
        others = [operation.pattern() for operation in OPERATIONS if operation.right != name]
        of_type = (operation.pattern(of_type=True) for operation in mine)
        # A pattern for all types must not match paths of another right.
        of_all = (operation.pattern() for operation in mine if not fnmatch.filter(others, operation.pattern()))
        result[name] = Right(_fewest(pattern for pattern in of_type if "{type}" in pattern), _fewest(of_all))
    return result


def _fewest(patterns: Iterable[str]) -> tuple[str, ...]:
    """Return the patterns without those that another pattern covers."""
    distinct = [*dict.fromkeys(patterns)]

    def covered(pattern: str) -> bool:
        return any(other != pattern and fnmatch.fnmatchcase(pattern, other) for other in distinct)

    return tuple(pattern for pattern in distinct if not covered(pattern))


RIGHTS: Mapping[str, Right] = rights()
"""The rights by name. Each method of the API belongs to one of them, except callbacks."""

_DEAD_LETTERS = (
    *("sqs:ReceiveMessage", "sqs:ChangeMessageVisibility", "sqs:DeleteMessage", "sqs:GetQueueAttributes"),
    *("sqs:StartMessageMoveTask", "sqs:ListMessageMoveTasks"),
)
_FIND_PARTS = ("cloudformation:ListStackResources", "cloudformation:GetTemplate")
_ARNS = 20
"""Resources per statement. When a policy exceeds IAM's limit, the CDK moves whole statements to another policy."""
_MANY = "Policies have no room for all names; the pattern matches only names of this service."
_WILDCARD = "A saga's id is not known in advance; the path names the operation and the saga type."


class Access:
    """Grants the rights of a service, for some of its saga classes or for all. ``let_send`` lets a principal send to
    the command queue, once the queue exists. Rights apply only if IAM authorizes the API's callers; see
    ``docs/concepts/security-model.md`` for the policies."""

    def __init__(
        self,
        service: Construct,
        *,
        catalogue: Catalogue,
        queues: Mapping[str, SagaQueues],
        api: apigateway.RestApiBase,
        supervisor: lambda_.Function,
        let_send: Callable[[Grantee], None],
        fitting: Fitting,
    ) -> None:
        self._service = service
        self._catalogue = catalogue
        self._queues = queues
        self._options = catalogue.service_options
        self._api = api
        self._supervisor = supervisor
        self._let_send = let_send
        self._fitting = fitting

    def start(self, grantee: Grantee, saga_classes: Sequence[type[Any]]) -> iam.Grant:
        """Let a principal start sagas through the API and, if the grant is for all types, with commands."""
        granted = self.grant("start", grantee, saga_classes)
        if not saga_classes or len(set(saga_classes)) == len(self._catalogue.sagas):
            self._let_send(grantee)
        return granted

    def cancel(self, grantee: Grantee, saga_classes: Sequence[type[Any]]) -> iam.Grant:
        for saga in self._named(saga_classes):
            if not saga.cancellable:
                message = f"saga {saga.name} is declared with cancellable=False, so it cannot be cancelled"
                raise DefinitionError(f"{self._service.node.id}: {message}")
        return self.grant("cancel", grantee, saga_classes)

    def operate(self, grantee: Grantee, saga_classes: Sequence[type[Any]]) -> iam.Grant:
        """Let a principal operate sagas through the API, handle dead letters, and find queues in the templates."""
        granted = self.grant("operate", grantee, saga_classes)
        scope = cast("Construct", grantee) if Construct.is_construct(grantee) else self._service
        more: list[tuple[Sequence[str], list[str]]] = [(_FIND_PARTS, self._stacks())]
        named = self._named(saga_classes) or self._catalogue.sagas
        queues = [self._queues[saga.name] for saga in named if saga.has_code]
        more.append((_DEAD_LETTERS, self._letters(queues, scope, of_all=not saga_classes)))
        # One pattern per saga, because policies have no room for the names of all queues.
        names = [saga.name for saga in self._catalogue.sagas]
        targets = list[str]()
        for own in queues:
            pattern = own.pattern(scope, names)
            targets += own.arns(scope) if pattern is None else [pattern]
        more.append((("sqs:SendMessage",), targets))
        for arn in (arn for _, arns in more for arn in arns if "*" in arn):
            acknowledge_objects(cast("iam.IGrantable", grantee), arn, _MANY)
        if not saga_classes:
            function = self._supervisor.function_arn
            more.append((("lambda:InvokeFunction",), [function, f"{function}:{self._options.alias}"]))
        further = [grant for actions, arns in more for grant in allowed(grantee, actions, arns)]
        return _combined([granted, *further, *let_use_queues_key(self._options.encryption_key, grantee)])

    def _letters(self, queues: Sequence[SagaQueues], scope: Construct, *, of_all: bool) -> list[str]:
        """Return the ARNs of the dead-letter queues, or one pattern that matches those of all types and nothing else.
        A type ``old-dead`` can have a step ``letters``, whose queue the pattern would match."""
        ambiguous = any(saga.name.endswith("-dead") for saga in self._catalogue.sagas)
        if of_all and len(queues) > 1 and not ambiguous:
            return [queues[0].arn_of_all(scope, f"*-{DEAD_LETTERS}")]
        return [own.arn_of_letters(scope) for own in queues]

    def grant(self, right: str, grantee: Grantee, saga_classes: Sequence[type[Any]]) -> iam.Grant:
        named = self._named(saga_classes)
        mount = self._options.mount
        mounted = mount and mount.default_method_options and mount.default_method_options.authorizer
        if self._options.authorizer or mounted:
            fault = "its API uses your own authorizer, so IAM permissions have no effect"
            raise DefinitionError(f"{self._service.node.id}: {fault}")
        patterns = [] if named else list(RIGHTS[right].of_all)
        names = [saga.name for saga in named or self._catalogue.sagas]
        patterns = patterns or [path.format(type=name) for name in names for path in RIGHTS[right].of_type]
        base = mount.path.rstrip("/") if mount is not None else ""
        self._fitting.watch(grantee)
        try:
            stage = self._stage()
        except RuntimeError:  # the app deploys its API itself, with stages of any name
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

    def _stage(self) -> str:
        """Return the name of the API's stage. A reference to the stage would have an unknown length."""
        stage = self._api.deployment_stage
        resource = stage.node.default_child
        return resource.stage_name or "*" if isinstance(resource, apigateway.CfnStage) else stage.stage_name

    def _stacks(self) -> list[str]:
        """Return the ARNs of the service's stacks. Requests name the outermost stack without its id."""
        stack = Stack.of(self._service)
        named = stack.format_arn(service="cloudformation", resource="stack", resource_name=f"{stack.stack_name}/*")
        nested = [cast("Stack", node) for node in self._service.node.find_all() if NestedStack.is_nested_stack(node)]
        if not nested:
            return [named]
        ids = [stack.get_logical_id(cast("CfnElement", inner.nested_stack_resource)) for inner in nested]
        # CloudFormation's name for a nested stack: the outer stack's name, the logical id, and a random suffix.
        same = takewhile(lambda letters: letters[0] == letters[1], zip(min(ids), max(ids), strict=False))
        name = f"{stack.stack_name}-{''.join(letter for letter, _ in same)}*/*"
        return [named, stack.format_arn(service="cloudformation", resource="stack", resource_name=name)]


def allowed(grantee: Grantee, actions: Sequence[str], arns: Sequence[str]) -> list[iam.Grant]:
    """Allow actions on resources, in statements of limited length."""
    to = cast("iam.IGrantable", grantee)
    parts = [arns[start : start + _ARNS] for start in range(0, len(arns), _ARNS)]
    return [iam.Grant.add_to_principal(grantee=to, actions=list(actions), resource_arns=list(part)) for part in parts]


def let_use_queues_key(key: AnyKey | None, grantee: Grantee) -> list[iam.Grant]:
    """Let a principal send to queues and receive from them, if a customer's key encrypts them."""
    if key is None:
        return []
    to = cast("iam.IGrantable", grantee)
    actions = ["kms:Decrypt", "kms:GenerateDataKey"]
    via = via_services("sqs")
    return [iam.Grant.add_to_principal(grantee=to, actions=actions, resource_arns=[key.key_arn], conditions=via)]


def _combined(grants: Sequence[iam.Grant]) -> iam.Grant:
    combined = grants[0]
    for grant in grants[1:]:
        combined = combined.combine(grant)
    return combined
