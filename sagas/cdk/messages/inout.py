"""How events get into a service and out of it. What nothing asks for is not deployed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from aws_cdk import Annotations
from aws_cdk import aws_events as events
from aws_cdk import aws_sqs as sqs

from sagas.authoring.codec import decode
from sagas.authoring.steps import Undoable
from sagas.cdk.access.grants import Grants
from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.messages.commands import CommandFunction, CommandQueue
from sagas.cdk.messages.events import Outbox
from sagas.cdk.messages.sources import Connector, Source, default_key
from sagas.cdk.messages.told import SagaEvents
from sagas.cdk.watch.alarms import ServiceAlarms
from sagas.errors import DefinitionError, InvalidRequest, listed
from sagas.messaging.selectors import has_paths, wrong_paths
from sagas.paths import is_path, parse_path

_CIRCLE = (
    "the rule is on the service's own event bus, so a saga may start another without end, which nothing stops; match "
    "detail.saga in the rule's pattern so that no started saga leads back, then acknowledge this warning"
)
_QUEUE, _FUNCTION, _OUTBOX = "Commands", "CommandFunction", "Outbox"


class InOut(Grants):
    """The part of a service that takes commands and events, and tells its own."""

    _shared: SharedAssets
    _supervisor: SagaFunction
    _environment: Mapping[str, str]
    _alarms: ServiceAlarms
    _release: Callable[..., None]
    """Has a deployment that goes by and by also move a function's alias, as long as none of some alarms is on."""

    @property
    def command_queue(self) -> sqs.Queue:
        """The queue that takes commands as JSON messages: to start, signal and cancel sagas:
        ``docs/how-to/events.md``.

        Reading it makes it, with its dead letters and its function. So do :meth:`start_on` and :meth:`signal_on`.
        """
        return self._commands()[0].queue

    @property
    def command_dead_letter_queue(self) -> sqs.Queue:
        """Where commands end that cannot be carried out, each with the reason in its attributes."""
        return self._commands()[0].dead_letters

    @property
    def events(self) -> events.IEventBus:
        """The bus of EventBridge on which the service tells of its sagas, as ``docs/how-to/events.md`` lists it.

        Reading it turns that on: the control table gets a stream, and a function tells what is committed. The bus is
        the one given as ``events=``, or one of the service's own.
        """
        return self._outbox().bus

    def start_on(
        self,
        source: Source,
        saga_class: type[Any],
        *,
        request: object = "$.detail",
        key: str | Sequence[str] | None = None,
    ) -> None:
        """Start a saga for each event of a source: exactly one for each key.

        An event has the form of EventBridge's: a notification of SNS has its message as ``detail``, and a message of a
        queue its body; as JSON, if it is that.

        Args:
            source: a rule of EventBridge; a schedule (an ``events.Schedule``, for which a rule is made, or a
                ``ScheduleExpression`` of EventBridge Scheduler; of a ``Schedule`` the target is replaced); a bucket,
                for the objects that are created in it; a topic; or a queue, whose messages must be hidden for 30
                seconds at least.
            saga_class: what is started.
            request: a path into the event, such as ``$.detail``; or JSON that contains such paths.
            key: a path to what identifies the event; or several paths and texts, to be joined by slashes. When
                absent, what the source tells events apart by: EventBridge's id, the id of Scheduler's execution, key
                and sequencer of an object, and the id of a notification or a message.

        Raises:
            DefinitionError: the saga is not among those of the service; something is not a path; the request has none
                and does not fit the saga's; or the source is none of these, or cannot be connected.
        """
        saga = self._catalogue.definition(saga_class)
        what = f"{self.node.id}: start_on {saga.name}"
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
        command = {"command": "start_on", "saga": saga.name, "request": request, "key": keyed}
        self._connector().connect(source, command, what)
        self._warn_of_circle(source, what)

    def signal_on(
        self,
        source: Source,
        step: Undoable,
        *,
        saga_id: str = "$.detail.saga_id",
        value: object = "$.detail",
    ) -> None:
        """Send a signal for each event of a source.

        Args:
            source: as for :meth:`start_on`.
            step: that takes the signal, such as ``Loan.approval``.
            saga_id: the path to the id of the saga.
            value: a path into the event, or JSON that contains such paths.

        Raises:
            DefinitionError: the step takes no signal; otherwise as :meth:`start_on`.
        """
        owner = step.owner if isinstance(cast("object", step), Undoable) else None
        if owner is None:
            raise DefinitionError(
                f"{self.node.id}: signal_on: step must be one that waits, like Loan.approval, not {step!r}"
            )
        saga = self._catalogue.definition(owner)
        found = next((one for one in saga.steps if one.name == step.name), None)
        if found is None or found.waits_for != "signal":
            raise DefinitionError(f"{self.node.id}: signal_on: step {step.name} of saga {saga.name} takes no signal")
        what = f"{self.node.id}: signal_on {saga.name}.{found.name}"
        if not is_path(saga_id):
            raise DefinitionError(f"{what}: saga_id must be a path such as $.detail.saga_id, not {saga_id!r}")
        self._check(what, "value", value, found.signal_type)
        told = {"step": found.name, "saga_id": saga_id, "value": value}
        self._connector().connect(source, {"command": "signal_on", "saga": saga.name, **told}, what)

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
        outbox = cast("Outbox | None", self.node.try_find_child(_OUTBOX))
        if outbox is None or not isinstance(source, events.Rule):
            return
        rule = cast("events.CfnRule", source.node.default_child)
        if rule.event_bus_name in (outbox.bus.event_bus_name, outbox.bus.event_bus_arn):
            Annotations.of(self).add_warning_v2(f"sagas:Circle:{source.node.path}", f"{what}: {_CIRCLE}")

    def _connector(self) -> Connector:
        queue, function = self._commands()
        return Connector(self, queue, function, self._options.encryption_key)

    def _commands(self) -> tuple[CommandQueue, CommandFunction]:
        """The command queue and its function, which the first who asks makes."""
        made = self.node.try_find_child(_QUEUE)
        if made is not None:
            return cast("CommandQueue", made), cast("CommandFunction", self.node.find_child(_FUNCTION))
        queue = CommandQueue(self, _QUEUE, shared=self._shared)
        function = CommandFunction(
            self,
            _FUNCTION,
            shared=self._shared,
            commands=queue,
            queues=self._queues.values(),
            environment=self._environment,
        )
        self._alarms.add_commands(queue.dead_letters, function.function)
        self._released(function, "CommandErrors")
        self._command_arn = queue.queue.queue_arn
        for grantee in self._senders:
            self._let_send(grantee)
        return queue, function

    def _outbox(self) -> Outbox:
        """What tells events, which the first who asks makes."""
        made = self.node.try_find_child(_OUTBOX)
        if made is not None:
            return cast("Outbox", made)
        told = SagaEvents.of(self._options.service, self._options.events) or SagaEvents()
        outbox = Outbox(
            self,
            _OUTBOX,
            shared=self._shared,
            told=told,
            environment=self._environment,
            supervisor=self._supervisor,
        )
        self._alarms.add_outbox(self._options.service, outbox.lost, outbox.function)
        self._released(outbox, "EventErrors")
        return outbox

    def _held_of_events(self) -> dict[str, object]:
        """What holds commands, and names of events that could not be told, as far as it is there."""
        held: dict[str, object] = {}
        if self.node.try_find_child(_QUEUE) is not None:
            queue, _ = self._commands()
            held |= {"command queue": queue.queue, "dead-letter queue of commands": queue.dead_letters}
        if self.node.try_find_child(_OUTBOX) is not None:
            held["events not told"] = self._outbox().lost
        return held

    def _released(self, function: SagaFunction, alarm: str) -> None:
        self._release(function, self._alarms.node.find_child(alarm))
