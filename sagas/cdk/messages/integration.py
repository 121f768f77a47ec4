"""Sends commands and events into a service, and its events out. Unused parts are not deployed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from aws_cdk import Annotations
from aws_cdk import aws_events as events
from constructs import Construct

from sagas.authoring.codec import decode
from sagas.authoring.steps import Undoable
from sagas.cdk.access.grants import Grantee, allowed, let_use_queues_key
from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.messages.commands import CommandFunction, CommandQueue
from sagas.cdk.messages.events import Outbox
from sagas.cdk.messages.sources import Connector, Source, default_key
from sagas.cdk.options.values import SagaEvents
from sagas.cdk.parts.part import Part
from sagas.errors import DefinitionError, InvalidRequest, listed
from sagas.messaging.selectors import has_paths, wrong_paths
from sagas.paths import is_path, parse_path

_CIRCLE = (
    "the rule is on the service's own event bus, so sagas may start each other in an endless loop; match detail.saga "
    "in the rule's pattern so that no started saga leads back, then acknowledge this warning"
)


class Integration:
    """Takes commands and events into a service, and publishes its events. Each part is created when first requested,
    and passed to ``add``."""

    def __init__(
        self,
        service: Construct,
        *,
        catalogue: Catalogue,
        shared: SharedAssets,
        supervisor: SagaFunction,
        environment: Mapping[str, str],
        add: Callable[[Part], None],
    ) -> None:
        self._service = service
        self._catalogue = catalogue
        self._shared = shared
        self._supervisor = supervisor
        self._environment = environment
        self._add = add
        self._commands: CommandFunction | None = None
        self._outbox: Outbox | None = None
        self._senders: list[Grantee] = []
        """Principals that may send commands, even if the command queue is created later."""

    def commands(self) -> CommandFunction:
        """Return the function that executes commands. The first call creates it and its queue."""
        if self._commands is None:
            queue = CommandQueue(self._service, "Commands", shared=self._shared)
            self._commands = CommandFunction(
                self._service,
                "CommandFunction",
                shared=self._shared,
                commands=queue,
                environment=self._environment,
            )
            self._add(self._commands)
            for grantee in self._senders:
                self._let_send_to(queue, grantee)
        return self._commands

    def let_send(self, grantee: Grantee) -> None:
        """Let a principal send commands, now or as soon as the command queue exists."""
        self._senders.append(grantee)
        if self._commands is not None:
            self._let_send_to(self._commands.commands, grantee)

    def _let_send_to(self, commands: CommandQueue, grantee: Grantee) -> None:
        allowed(grantee, ("sqs:SendMessage", "sqs:GetQueueUrl"), [commands.queue.queue_arn])
        let_use_queues_key(self._shared.options.encryption_key, grantee)

    def outbox(self) -> Outbox:
        """Return the outbox, which publishes events. The first call creates it and its bus."""
        if self._outbox is None:
            options = self._shared.options
            self._outbox = Outbox(
                self._service,
                "Outbox",
                shared=self._shared,
                published=SagaEvents.of(options.service, options.events) or SagaEvents(),
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
        saga = self._catalogue.definition(saga_class)
        what = f"{self._service.node.id}: start_on {saga.name}"
        self._check(what, "request", request, saga.request_type)
        chosen: object = default_key(source) if key is None else key
        several = cast("list[object]", list(chosen) if isinstance(chosen, list | tuple) else [chosen])
        if not several or not all(isinstance(part, str) and part for part in several):
            raise DefinitionError(f"{what}: key must be a path such as $.detail.id, or several, not {chosen!r}")
        self._check_paths(what, "key", several)
        if not any(map(is_path, several)):
            fault = f"key must contain a path into the event; with {chosen!r} all events start the same saga"
            raise DefinitionError(f"{what}: {fault}")
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
        owner = step.owner if isinstance(cast("object", step), Undoable) else None
        if owner is None:
            raise DefinitionError(
                f"{self._service.node.id}: signal_on: step must be one that waits, such as Loan.approval, not {step!r}"
            )
        saga = self._catalogue.definition(owner)
        match = next((own for own in saga.steps if own.name == step.stored_name), None)
        if match is None or match.waits_for != "signal":
            raise DefinitionError(
                f"{self._service.node.id}: signal_on: step {step.stored_name} of saga {saga.name} takes no signal"
            )
        what = f"{self._service.node.id}: signal_on {saga.name}.{match.name}"
        if not is_path(saga_id):
            raise DefinitionError(f"{what}: saga_id must be a path such as $.detail.saga_id, not {saga_id!r}")
        self._check(what, "value", value, match.signal_type)
        fields = {"step": match.name, "saga_id": saga_id, "value": value}
        self._connector().connect(source, {"command": "signal_on", "type": saga.name, **fields}, what)

    @staticmethod
    def _check_paths(what: str, name: str, selector: object) -> None:
        for wrong in wrong_paths(selector):
            try:
                parse_path(wrong)
            except ValueError as error:
                raise DefinitionError(f"{what}: {name}: {error}") from None

    def _check(self, what: str, name: str, selector: object, expected: Any) -> None:
        """Refuse a selector if one of its paths is invalid, or if it has no paths and does not match ``expected``."""
        self._check_paths(what, name, selector)
        if not has_paths(selector):
            try:
                decode(selector, expected)
            except InvalidRequest as error:
                raise DefinitionError(f"{what}: {name} is invalid: {listed(error.problems)}") from None

    def _warn_of_circle(self, source: Source, what: str) -> None:
        """Warn if the service's own events start sagas: Lambda does not detect loops through EventBridge."""
        outbox = self._outbox
        if outbox is None or not isinstance(source, events.Rule):
            return
        rule = cast("events.CfnRule", source.node.default_child)
        if rule.event_bus_name in (outbox.bus.event_bus_name, outbox.bus.event_bus_arn):
            Annotations.of(self._service).add_warning_v2(f"sagas:Circle:{source.node.path}", f"{what}: {_CIRCLE}")

    def _connector(self) -> Connector:
        function = self.commands()
        return Connector(self._service, function.commands, function, self._shared.options.encryption_key)
