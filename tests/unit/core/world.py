"""A saga's whole world as one value: control item, open journal slot, workers, an operator, a queue, faults to come.

The automaton decides everything in it; this module only plays the store, the queue and the crashes around it, the way
the engine does: claim, run, put, commit, send. Time is abstract: it is always ``NOW``, a lease expires by an action,
and so does the time until which a lost execution may act. Numbers that only ever grow (tokens, sequence and dispatch
numbers) are kept relative, so that the set of worlds is finite.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from sagas.core import events as ev
from sagas.core.commands import Send
from sagas.core.states import DeadLetter, Lease, SagaState, SagaStatus, StepState, StepStatus
from tests.unit.core.making import NOW

LATER = NOW + 20
LIVE = Lease("owner", NOW + 10, LATER)
EXPIRED = Lease("owner", NOW - 1, LATER)
EXPIRED_LONG_AGO = Lease("owner", NOW - 1, NOW - 1)


class Violation(Exception):
    """An invariant does not hold."""


class Message(NamedTuple):
    """A message. ``sender``: ``m`` the original, ``d`` a duplicate by its sender's retry, ``r`` redriven."""

    step: int
    undo: bool
    dispatch: int
    sender: str = "m"

    @property
    def identity(self) -> DeadLetter:
        return DeadLetter(self.dispatch, 0, self.sender)

    def arrived(self) -> ev.MessageArrived:
        sent_at = NOW + 1 if self.sender == "r" else NOW - 1
        return ev.MessageArrived(self.step, self.undo, self.dispatch, 0, self.sender, LIVE, sent_at)


class Actor(NamedTuple):
    """A worker or an operator between two of its requests.

    Attributes:
        doing: what it does next.
        held: the saga as it believes it to be; ``None`` once that cannot matter any more.
        step: the step it runs.
        undo: whether it runs the step's undo.
        fact: what it wants to put or commit.
        message: the message at hand.
        send: what it is to send.
    """

    doing: Literal["idle", "run", "put", "commit", "send"] = "idle"
    held: SagaState | None = None
    step: int = 0
    undo: bool = False
    fact: ev.Fact | None = None
    message: Message | None = None
    send: Send | None = None

    @property
    def holding(self) -> bool:
        return self.doing in ("run", "put", "commit")


IDLE = Actor()


class Ghost(NamedTuple):
    """What really happened, which nobody in the world can see. One item a step.

    Attributes:
        ran: executions of the step.
        undo_ran: executions of its undo.
        completed: how often its completion was committed.
        undone: how often its undo was committed.
        open: attempts claimed that have no entry.
        lost: a lost attempt that nothing has settled since.
        grants: budgets granted by operators.
    """

    ran: tuple[int, ...]
    undo_ran: tuple[int, ...]
    completed: tuple[int, ...]
    undone: tuple[int, ...]
    open: tuple[int, ...]
    lost: tuple[bool, ...]
    grants: int = 0

    def plus(self, name: str, index: int, amount: int = 1) -> Ghost:
        return self.put(name, index, getattr(self, name)[index] + amount)

    def put(self, name: str, index: int, value: Any) -> Ghost:
        values = getattr(self, name)
        return self._replace(**{name: (*values[:index], value, *values[index + 1 :])})


class Budget(NamedTuple):
    """How often each misfortune may still strike, and each person intervene."""

    crash: int = 0
    pause: int = 0
    duplicate: int = 0
    loss: int = 0
    unanswered: int = 0
    impatience: int = 0
    cancel: int = 0
    redrive: int = 0
    retry: int = 0
    compensate: int = 0


class World(NamedTuple):
    """Everything. ``slot`` is the journal's entry at ``control.seq + 1`` and the token it was written with."""

    control: SagaState
    slot: tuple[ev.Fact, int] | None
    workers: tuple[Actor, ...]
    operator: Actor
    queue: tuple[Message, ...]
    dead: tuple[Message, ...]
    ghost: Ghost
    budget: Budget

    @property
    def actors(self) -> tuple[Actor, ...]:
        return (*self.workers, self.operator)

    def with_actor(self, number: int, actor: Actor) -> World:
        if number == len(self.workers):
            return self._replace(operator=actor)
        workers = (*self.workers[:number], actor, *self.workers[number + 1 :])
        return self._replace(workers=workers)

    def spend(self, name: str) -> World | None:
        """The world with one less of that misfortune to come, if there was one left."""
        left: int = getattr(self.budget, name)
        return self._replace(budget=self.budget._replace(**{name: left - 1})) if left else None

    def take(self, message: Message) -> World:
        queue = list(self.queue)
        queue.remove(message)
        return self._replace(queue=tuple(queue))

    def give(self, message: Message | None) -> World:
        """Put a message into the queue; more than two of a kind tell nothing new."""
        full = message is None or self.queue.count(message) > 1
        return self if full or message is None else self._replace(queue=(*self.queue, message))

    def fenced(self, number: int) -> World:
        """The actor gives up: its message comes back by itself."""
        actor = self.actors[number]
        return self.with_actor(number, IDLE).give(actor.message)

    def time_passes(self) -> World:
        """Whatever a lost execution may still have done, it cannot do any more."""
        world = self._replace(control=_elapsed(self.control))
        for number, actor in enumerate(self.actors):
            if actor.held is None or actor.held.token < self.control.token:
                world = world.fenced(number) if actor.doing == "run" else world
        for number, actor in enumerate(world.actors):
            if actor.held is not None:
                world = world.with_actor(number, actor._replace(held=_elapsed(actor.held)))
        return world


def _elapsed(state: SagaState) -> SagaState:
    return replace(state, lost_until=0.0, not_before=0.0)


def initial(steps: int, budget: Budget, workers: int = 2) -> World:
    """A saga that was just started, and its first message."""
    names = tuple(StepState(f"step{index}") for index in range(steps))
    control = SagaState("id", "saga", "1", names, updated_at=NOW, created_at=NOW)
    zero, never = (0,) * steps, (False,) * steps
    ghost = Ghost(zero, zero, zero, zero, zero, never)
    world = World(control, None, (IDLE,) * workers, IDLE, (Message(0, False, 1),), (), ghost, budget)
    return canonical(world)


def canonical(world: World) -> World:
    """The representative of all worlds that differ in names only."""
    for number, actor in enumerate(world.actors):
        if actor.held is not None and actor.holding and actor.held.seq < world.control.seq:
            outrun = actor._replace(held=None) if actor.doing == "run" else None
            world = world.with_actor(number, outrun) if outrun else world.fenced(number)
    tokens = _ranks(world)
    dispatch, dead = world.control.dispatch, world.control.dead
    workers = (_actor(actor, tokens, dispatch, dead) for actor in world.workers)
    return world._replace(
        control=_state(world.control, tokens, dispatch),
        slot=(world.slot[0], tokens[world.slot[1]]) if world.slot else None,
        workers=tuple(sorted(workers, key=hash)),
        operator=_actor(world.operator, tokens, dispatch, dead),
        queue=_messages(world.queue, dispatch, dead),
        dead=_messages(world.dead, dispatch, dead),
    )


def _ranks(world: World) -> dict[int, int]:
    used = {actor.held.token for actor in world.actors if actor.held is not None and actor.holding}
    used |= {world.control.token} | ({world.slot[1]} if world.slot else set[int]())
    return {token: rank for rank, token in enumerate(sorted(used))}


def _messages(messages: Iterable[Message], dispatch: int, dead: DeadLetter | None) -> tuple[Message, ...]:
    return tuple(sorted(_message(message, dispatch, dead) for message in messages))


def _message(message: Message, dispatch: int, dead: DeadLetter | None) -> Message:
    """A message that is neither the current one nor the one that died is as stale as any other."""
    if message.dispatch == dispatch or (dead is not None and message.dispatch == dead.dispatch):
        return message._replace(dispatch=message.dispatch - dispatch)
    return message._replace(dispatch=-99)


def _actor(actor: Actor, tokens: dict[int, int], dispatch: int, dead: DeadLetter | None) -> Actor:
    message = _message(actor.message, dispatch, dead) if actor.message else None
    send = replace(actor.send, dispatch=actor.send.dispatch - dispatch) if actor.send else None
    held = _state(actor.held, tokens, dispatch) if actor.held is not None and actor.holding else None
    return actor._replace(message=message, send=send, held=held, fact=_fact(actor.fact))


def _fact(fact: ev.Fact | None) -> ev.Fact | None:
    return replace(fact, message=None) if isinstance(fact, ev.StepDeadLettered) else fact


def _state(state: SagaState, tokens: dict[int, int], dispatch: int) -> SagaState:
    token = tokens[state.token]
    if state.seq == 1 and state.dispatch == dispatch == 0 and state.token == token:
        return state
    dead = replace(state.dead, dispatch=state.dead.dispatch - dispatch) if state.dead else None
    return replace(
        state,
        seq=1,
        token=token,
        dispatch=state.dispatch - dispatch,
        dead=dead,
        steps=tuple(replace(s, result_seq=1) if s.result_seq > 1 else s for s in state.steps),
        error_seq=min(state.error_seq, 1),
        resolution_seq=min(state.resolution_seq, 1),
    )


def check_end(world: World, undoable: tuple[bool, ...]) -> None:
    """What must be true of a saga that is over."""
    state, ghost = world.control, world.ghost
    if not state.over:
        return
    if any(ghost.open):
        raise Violation("I4: an attempt was started and has no entry")
    if state.status is SagaStatus.COMPLETED:
        _check_completed(state, ghost)
    if state.status is SagaStatus.COMPENSATION_FAILED and not _any(state, StepStatus.COMPENSATION_FAILED):
        raise Violation("I4: COMPENSATION_FAILED, but no undo failed")
    if state.status is SagaStatus.FAILED and _any(state, StepStatus.COMPENSATED):
        raise Violation("I4: FAILED, but a step is undone")
    undone = state.status in (SagaStatus.COMPENSATED, SagaStatus.CANCELLED)
    for index, step in enumerate(state.steps):
        if undone and ghost.completed[index] and undoable[index] and not ghost.undone[index]:
            raise Violation(f"I4: step {index} completed, was not undone, and the saga is {state.status}")
        if ghost.lost[index] and (step.name not in state.in_doubt or not state.attention):
            raise Violation(f"I4: a lost attempt of step {index} is forgotten")


def _check_completed(state: SagaState, ghost: Ghost) -> None:
    if state.cancel_requested_at:
        raise Violation("I4: a cancel was accepted, and the saga is COMPLETED")
    if not all(ghost.completed) or any(ghost.undone):
        raise Violation("I4: COMPLETED, but a step is missing or undone")
    if any(step.status is not StepStatus.COMPLETED for step in state.steps):
        raise Violation("I4: COMPLETED, but a step does not say so")


def _any(state: SagaState, status: StepStatus) -> bool:
    return any(step.status is status for step in state.steps)
