"""How events get into a service and out of it. What nothing asks for is not deployed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, cast

from aws_cdk import Annotations
from aws_cdk import aws_events as events
from constructs import Construct

from sagas.authoring.codec import decode
from sagas.authoring.steps import Undoable
from sagas.cdk.access.grants import Grantee, allowed, let_use_queues_key
from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.data.queues import SagaQueues
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.messages.commands import CommandFunction, CommandQueue
from sagas.cdk.messages.events import Outbox
from sagas.cdk.messages.sources import Connector, Source, default_key
from sagas.cdk.options.told import SagaEvents
from sagas.cdk.parts.part import Part
from sagas.errors import DefinitionError, InvalidRequest, listed
from sagas.messaging.selectors import has_paths, wrong_paths
from sagas.paths import is_path, parse_path

_CIRCLE = (
    "the rule is on the service's own event bus, so a saga may start another without end, which nothing stops; match "
    "detail.saga in the rule's pattern so that no started saga leads back, then acknowledge this warning"
)


class Integration:
    """What takes commands and events into a service, and publishes its own events. The first who asks makes it.

    Args:
        service: the construct of the service.
        catalogue: of its sagas.
        shared: code, layers, options and tables.
        queues: of the sagas.
        supervisor: publishes events once more.
        environment: variables of the functions.
        add: takes in what is made as a part of the service.
    """

    def __init__(
        self,
        service: Construct,
        *,
        catalogue: Catalogue,
        shared: SharedAssets,
        queues: Collection[SagaQueues],
        supervisor: SagaFunction,
        environment: Mapping[str, str],
        add: Callable[[Part], None],
    ) -> None:
        self._service, self._catalogue, self._shared, self._queues = service, catalogue, shared, queues
        self._supervisor, self._environment, self._add = supervisor, environment, add
        self._commands: CommandFunction | None = None
        self._outbox: Outbox | None = None
        self._senders: list[Grantee] = []
        """Those who may send commands, also should the command queue be made later."""

    def commands(self) -> CommandFunction:
        """Return the function that carries out commands, with its queue."""
        if self._commands is None:
            queue = CommandQueue(self._service, "Commands", shared=self._shared)
            self._commands = CommandFunction(
                self._service,
                "CommandFunction",
                shared=self._shared,
                commands=queue,
                queues=self._queues,
                environment=self._environment,
            )
            self._add(self._commands)
            for grantee in self._senders:
                self._let_send_to(queue, grantee)
        return self._commands

    def let_send(self, grantee: Grantee) -> None:
        """Let a principal send commands, as soon as there is a queue for them."""
        self._senders.append(grantee)
        if self._commands is not None:
            self._let_send_to(self._commands.commands, grantee)

    def _let_send_to(self, commands: CommandQueue, grantee: Grantee) -> None:
        allowed(grantee, ("sqs:SendMessage", "sqs:GetQueueUrl"), [commands.queue.queue_arn])
        let_use_queues_key(self._shared.options.encryption_key, grantee)

    def outbox(self) -> Outbox:
        """Return what publishes events, with its bus."""
        if self._outbox is None:
            options = self._shared.options
            self._outbox = Outbox(
                self._service,
                "Outbox",
                shared=self._shared,
                told=SagaEvents.of(options.service, options.events) or SagaEvents(),
                environment=self._environment,
                supervisor=self._supervisor,
            )
            self._add(self._outbox)
        return self._outbox

    def start_on(
        self,
        source: Source,
        saga_class: type[Any],
        *,
        request: object,
        key: str | Sequence[str] | None,
    ) -> None:
        """Start a saga for each event of a source."""
        saga = self._catalogue.definition(saga_class)
        what = f"{self._service.node.id}: start_on {saga.name}"
        self._check(what, "request", request, saga.request_type)
        chosen: object = default_key(source) if key is None else key
        several = cast("list[object]", list(chosen) if isinstance(chosen, list | tuple) else [chosen])
        if not several or not all(isinstance(one, str) and one for one in several):
            raise DefinitionError(f"{what}: key must be a path such as $.detail.id, or several, not {chosen!r}")
        self._check_paths(what, "key", several)
        if not any(map(is_path, several)):
            told = f"key must take something from the event: with {chosen!r} there is one saga for all"
            raise DefinitionError(f"{what}: {told}")
        keyed = chosen if isinstance(chosen, str) else several
        command = {"command": "start_on", "type": saga.name, "request": request, "key": keyed}
        self._connector().connect(source, command, what)
        self._warn_of_circle(source, what)

    def signal_on(
        self,
        source: Source,
        step: Undoable,
        *,
        saga_id: str,
        value: object,
    ) -> None:
        """Send a signal for each event of a source."""
        owner = step.owner if isinstance(cast("object", step), Undoable) else None
        if owner is None:
            raise DefinitionError(
                f"{self._service.node.id}: signal_on: step must be one that waits, like Loan.approval, not {step!r}"
            )
        saga = self._catalogue.definition(owner)
        found = next((one for one in saga.steps if one.name == step.name), None)
        if found is None or found.waits_for != "signal":
            raise DefinitionError(
                f"{self._service.node.id}: signal_on: step {step.name} of saga {saga.name} takes no signal"
            )
        what = f"{self._service.node.id}: signal_on {saga.name}.{found.name}"
        if not is_path(saga_id):
            raise DefinitionError(f"{what}: saga_id must be a path such as $.detail.saga_id, not {saga_id!r}")
        self._check(what, "value", value, found.signal_type)
        told = {"step": found.name, "saga_id": saga_id, "value": value}
        self._connector().connect(source, {"command": "signal_on", "type": saga.name, **told}, what)

    @staticmethod
    def _check_paths(what: str, name: str, selector: object) -> None:
        for wrong in wrong_paths(selector):
            try:
                parse_path(wrong)
            except ValueError as error:
                raise DefinitionError(f"{what}: {name}: {error}") from None

    def _check(self, what: str, name: str, selector: object, expected: Any) -> None:
        """Refuse a selector with a wrong path, and one without paths whose value does not fit its type."""
        self._check_paths(what, name, selector)
        if not has_paths(selector):
            try:
                decode(selector, expected)
            except InvalidRequest as error:
                raise DefinitionError(f"{what}: {name} does not fit: {listed(error.problems)}") from None

    def _warn_of_circle(self, source: Source, what: str) -> None:
        """Warn where the service's own events start sagas: Lambda's detection of loops does not see EventBridge."""
        outbox = self._outbox
        if outbox is None or not isinstance(source, events.Rule):
            return
        rule = cast("events.CfnRule", source.node.default_child)
        if rule.event_bus_name in (outbox.bus.event_bus_name, outbox.bus.event_bus_arn):
            Annotations.of(self._service).add_warning_v2(f"sagas:Circle:{source.node.path}", f"{what}: {_CIRCLE}")

    def _connector(self) -> Connector:
        function = self.commands()
        return Connector(self._service, function.commands, function, self._shared.options.encryption_key)
