"""Tests of several sagas in one process, with the moments at which something happens to them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, cast, get_args

from sagas.authoring.codec import encode
from sagas.authoring.definition.definition import SagaDefinition, StepDefinition, definition_of
from sagas.authoring.saga import ReqT, Saga
from sagas.authoring.steps import Step, Undoable
from sagas.testing.outcome import Outcome, outcome_of
from sagas.testing.scripts import (
    ACTOR,
    FIRST_ID,
    Died,
    Failing,
    Moment,
    check_fail,
    ids_from,
    refuse_in_an_event_loop,
    request_of,
    settle_seconds,
)

if TYPE_CHECKING:
    from sagas.core.states import SagaState
    from sagas.testing.simulation import Simulation

AtMoment = Literal["before", "calling", "returned", "after"]
_MOMENTS = get_args(AtMoment)


def die() -> NoReturn:
    """Let the worker die here. Pass it to :meth:`Handle.on`, or call it in a fake client.

    Nothing of the attempt is recorded any more. Another worker takes over once the lease has expired.
    """
    raise Died


class World:
    """Several sagas in one process: one clock, one store, the engine of Lambda, and your code.

    Nothing happens until :meth:`advance` or :meth:`play` is called. Messages are delivered one at a time, in order of
    time, so a test gives the same result each time: chance is 0.5, and ids count up. As in :func:`sagas.testing.run`,
    waiting takes no time, and time passes while code runs. Use it as a context manager. Its handles can still be read
    after it.

    Args:
        types: the saga classes. The types of their children need not be named.
        clients: the clients that ``ctx.client(service)`` returns, by service, or a function such as ``boto3.client``.
        settle: how long sagas wait for a release if a stored value does not fit its type, as ``settle=`` of
            ``SagaService``.

    Raises:
        DefinitionError: one of the types is not a saga class.
        TypeError: there are no types, or ``settle`` is not a timedelta.
        ValueError: two types have the same name, or ``settle`` is a negative time.
    """

    def __init__(
        self,
        *types: type[Saga[Any]],
        clients: Mapping[str, Any] | Callable[[str], Any] | None = None,
        settle: timedelta = timedelta(0),
    ) -> None:
        if not types:
            raise TypeError("World: pass the saga classes, such as World(Trip)")
        definitions = [definition_of(saga_class) for saga_class in types]
        family = [member for each in definitions for member in (each, *each.family)]
        self._definitions = {member.name: member for member in family}
        for member in family:
            if self._definitions[member.name].saga_class is not member.saga_class:
                raise ValueError(f'World: two types are named "{member.name}"')
        # Imported here, because this loads boto3, which would slow down unit tests that do not run a saga.
        from sagas.testing.simulation import Simulation

        self._closed = False
        self._planned = dict[Moment, list[Callable[[], object]]]()
        self._simulation = Simulation(definitions, clients, settle_seconds(settle), ids_from(FIRST_ID))
        self._simulation.reached = self._reached

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._simulation.close()
        self._closed = True
        if error is None and self._planned:
            missed = [self._described(moment) for moment in self._planned]
            raise AssertionError(f"on: {'; '.join(missed)}")

    @property
    def now(self) -> datetime:
        """The time of the world's clock, in UTC. It begins with the machine's time, in whole milliseconds."""
        return datetime.fromtimestamp(self._simulation.clock.now(), UTC)

    def start(
        self,
        saga: type[Saga[ReqT]],
        request: ReqT,
        *,
        key: str | None = None,
        fail: Mapping[str, Failing] | None = None,
    ) -> Handle:
        """Start a saga. Its first step runs when time passes.

        Args:
            saga: the saga class, one of the world's.
            request: an instance of its request type.
            key: the idempotency key. A second start with the same key and an equal request returns the same saga.
            fail: exceptions to raise instead of running, by step or undo, as for :func:`sagas.testing.run`.

        Raises:
            InvalidRequest: the request does not fit its type, or the key was used with another request.
            TooLarge: the request has more than 256 KB of JSON, which the API refuses.
            Unavailable: starts of the type are paused.
            ValueError: the world does not have the type, or ``fail`` names an unknown step or undo.
            RuntimeError: the world is closed, or an event loop runs already and the saga has coroutines.
        """
        definition = self._definition(saga)
        self._check_open()
        check_fail(definition, fail or {})
        data = request_of(definition, request)
        refuse_in_an_event_loop(definition, "World.start")
        saga_id = self._simulation.start(definition, data, key=key, fail=fail)
        return Handle(self._simulation, self._planned, saga_id)

    def advance(self, by: timedelta = timedelta(0)) -> None:
        """Let time pass. What is due until then happens in order of time; by default, what is due now.

        Raises:
            TypeError: ``by`` is not a timedelta.
            ValueError: ``by`` is negative.
            RuntimeError: the world is closed, or this is called while a step runs.
        """
        if not isinstance(cast("object", by), timedelta):
            raise TypeError(f"advance: pass a timedelta, not {by!r}")
        if by < timedelta(0):
            raise ValueError(f"advance: time does not go back: {by!r}")
        self._check_open()
        self._simulation.advance(by.total_seconds())

    def play(self) -> None:
        """Let time pass until every saga has ended, needs an operator or is paused. A wait without a signal times out.

        Raises:
            RuntimeError: the world is closed, or this is called while a step runs.
        """
        self._check_open()
        self._simulation.play()

    def pause(
        self,
        saga: type[Saga[Any]],
        step: Undoable | str | None = None,
        *,
        starts_only: bool = False,
        undos: bool = False,
    ) -> None:
        """Pause a saga type or one of its steps, as an operator does.

        Args:
            saga: the saga class.
            step: the step to pause. Default: all steps of the type.
            starts_only: refuse new sagas, and let those in flight continue.
            undos: pause undos, too.

        Raises:
            ValueError: the world does not have the type or the step.
        """
        definition = self._definition(saga)
        name = "" if step is None else _step_of(definition, step, "pause").name
        pausing = self._simulation.engine.pausing
        pausing.pause(definition.name, ACTOR, step=name, starts_only=starts_only, undos=undos)

    def resume(self, saga: type[Saga[Any]], step: Undoable | str | None = None) -> None:
        """End a pause. For the parameters and errors, see :meth:`pause`."""
        definition = self._definition(saga)
        name = "" if step is None else _step_of(definition, step, "resume").name
        self._simulation.engine.pausing.resume(definition.name, ACTOR, step=name)

    def open_breaker(self, step: Step[..., Any]) -> None:
        """Open the circuit breaker of a step, such as ``Trip.charge``.

        Raises:
            NotFound: the step has no circuit breaker.
            ValueError: the world does not have the step.
        """
        self._simulation.engine.breakers.open(*self._place(step))

    def close_breaker(self, step: Step[..., Any]) -> None:
        """Close the circuit breaker of a step, as an operator does. For the errors, see :meth:`open_breaker`."""
        self._simulation.engine.breaker_operations.close(*self._place(step), ACTOR)

    def _place(self, step: Step[..., Any]) -> tuple[str, str]:
        """Return the names of a step and of its saga type."""
        for definition in self._definitions.values():
            if definition.saga_class is step.owner:
                return definition.name, step.stored_name
        raise ValueError(f"World has no type with the step {step!r}; it has {', '.join(self._definitions)}")

    def _definition(self, saga: type[Saga[Any]]) -> SagaDefinition:
        """Return the definition of one of the world's types."""
        definition = definition_of(saga)
        known = self._definitions.get(definition.name)
        if known is None or known.saga_class is not definition.saga_class:
            raise ValueError(f'World has no type "{definition.name}"; it has {", ".join(self._definitions)}')
        return definition

    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("the world is closed; its sagas can only be read")

    def _reached(self, moment: Moment) -> None:
        """Do what the test has planned for a moment."""
        for do in self._planned.pop(moment, ()):
            do()

    def _described(self, moment: Moment) -> str:
        _, path = self._simulation.place(moment.saga_id)
        what = f"the undo of {path}{moment.step}" if moment.undo else f"{path}{moment.step}"
        return f'{what} was never "{moment.name}" in attempt {moment.attempt}'


class Handle:
    """A saga of a :class:`World`, which :meth:`World.start` returns. All properties are as of now.

    Args:
        simulation: the simulation that has the saga.
        planned: what the test has planned for moments, by moment.
        id: the saga's id.
    """

    def __init__(self, simulation: Simulation, planned: dict[Moment, list[Callable[[], object]]], id: str) -> None:
        self._simulation = simulation
        self._planned = planned
        self.id = id

    def __repr__(self) -> str:
        return f"<{self._state.saga} {self.id}: {self.status}>"

    @property
    def status(self) -> str:
        """The saga's status, such as ``"COMPLETED"``."""
        return self._state.status.value

    @property
    def outcome(self) -> Outcome:
        """The saga's outcome so far, as :func:`sagas.testing.run` returns it."""
        return outcome_of(self._simulation, self.id)

    @property
    def children(self) -> dict[str, list[Handle]]:
        """The saga's children so far, by step, in order."""
        return {
            name: [Handle(self._simulation, self._planned, child.saga_id) for _, child in sorted(children.items())]
            for name, children in self._simulation.children(self.id).items()
        }

    def on(
        self,
        step: Undoable | str,
        moment: AtMoment,
        do: Callable[[], object],
        *,
        attempt: int = 1,
        undo: bool = False,
    ) -> None:
        """Do something once an attempt reaches a moment. ``do`` runs in the test's thread. What it raises ends the
        test. If the moment is never reached, the world's end raises ``AssertionError``.

        Args:
            step: the step, such as ``Trip.charge``, or its name.
            moment: ``"before"``: its message came. ``"calling"``: the attempt is claimed, and its code has not begun.
                ``"returned"``: the code has returned, and nothing is recorded. ``"after"``: the outcome is recorded.
            do: what to do, such as ``handle.cancel`` or :func:`die`.
            attempt: the number of the attempt, as ``ctx.attempt`` has it; polls count, too.
            undo: whether an attempt of the step's undo is meant.

        Raises:
            ValueError: the step or the moment does not exist, or the step has no code to call, or no undo.
            TypeError: ``attempt`` is not a number, or ``do`` cannot be called.
        """
        definition = _step_of(self._definition, step, "on")
        if moment not in _MOMENTS:
            raise ValueError(f"on: unknown moment {moment!r}; expected one of {', '.join(_MOMENTS)}")
        if undo and definition.undo is None:
            raise ValueError(f'on: step "{definition.name}" has no undo')
        if moment in ("calling", "returned") and not undo and not definition.asks:
            raise ValueError(f'on: step "{definition.name}" only waits, so it has no code that is ever "{moment}"')
        if not callable(do):
            raise TypeError(f"on: pass a function, not {do!r}")
        if not isinstance(cast("object", attempt), int) or attempt < 1:
            raise TypeError(f"on: attempt must be a number from 1, not {attempt!r}")
        key = Moment(self.id, definition.name, undo, moment, attempt)
        self._planned.setdefault(key, []).append(do)

    def signal(self, step: Undoable | str, value: object, *, by: str = "test") -> int:
        """Send a value to a wait. One that does not wait yet keeps it.

        Args:
            step: the wait, such as ``Trip.approval``, or its name.
            value: an instance of its type.
            by: the sender, which the audit trail names.

        Returns:
            202 if the signal was accepted, 200 if an equal one had been accepted before.

        Raises:
            Conflict: the wait has ended, or another value was sent before.
            InvalidRequest: the value does not fit the type of the wait.
            ValueError: the saga has no such wait.
        """
        definition = self._definition
        waits = {each.name: each for each in definition.steps if each.waits_for == "signal"}
        name = _name_of(step)
        if name not in waits:
            names = ", ".join(waits) or "none"
            raise ValueError(f'signal: {definition.name} has no wait "{name}" for a signal; it has {names}')
        data = encode(value, waits[name].signal_type)
        return 202 if self._simulation.send_signal(self.id, name, data, by) else 200

    def cancel(self, reason: str = "") -> None:
        """Cancel the saga, as ``DELETE`` does.

        Raises:
            Conflict: the saga cannot be cancelled.
        """
        self._simulation.engine.operations.cancel(self._state.saga, self.id, ACTOR, reason=reason)

    def retry(self, reason: str = "") -> None:
        """Grant new attempts to the dead-lettered step, or to the failed undos.

        Raises:
            Conflict: nothing is to be retried.
        """
        self._simulation.engine.operations.retry(self._state.saga, self.id, reason, ACTOR)

    def compensate(self, reason: str = "", *, force: bool = False) -> None:
        """Give the saga up, and undo it. With ``force``, a COMPLETED saga is undone, too.

        Raises:
            Conflict: the saga's status does not allow it.
        """
        self._simulation.engine.operations.compensate(self._state.saga, self.id, reason, ACTOR, force=force)

    @property
    def _state(self) -> SagaState:
        return self._simulation.stored(self.id)

    @property
    def _definition(self) -> SagaDefinition:
        return self._simulation.definition(self._state.saga)


def _name_of(step: Undoable | str) -> str:
    return step if isinstance(step, str) else step.stored_name


def _step_of(definition: SagaDefinition, step: Undoable | str, caller: str) -> StepDefinition:
    """Return a step of a saga type."""
    name = _name_of(step)
    found = next((each for each in definition.steps if each.name == name), None)
    if found is None:
        names = ", ".join(each.name for each in definition.steps)
        raise ValueError(f'{caller}: {definition.name} has no step "{name}"; it has {names}')
    return found
