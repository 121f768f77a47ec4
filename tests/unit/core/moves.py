"""Everything that can happen next in a world: faults, people, and each actor's next request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from sagas.core import events as ev
from sagas.core import rules
from sagas.core.automaton import decide
from sagas.core.commands import Decision, Die, Discard, Postpone, Run, Send, Write
from sagas.core.plan import Plan
from sagas.core.states import SagaState, SagaStatus, StepStatus
from tests.unit.core.making import BOOM, NOW, commands
from tests.unit.core.world import (
    EXPIRED,
    EXPIRED_LONG_AGO,
    IDLE,
    LIVE,
    Actor,
    Message,
    Violation,
    World,
    check_end,
)

Move = tuple[str, World]
_FORWARD = (SagaStatus.PENDING, SagaStatus.RUNNING)


@dataclass(frozen=True, slots=True)
class Moves:
    """The moves under one plan. ``permanent``: whether a step may also fail for good at once, or be rejected."""

    plan: Plan
    permanent: bool = True

    def __call__(self, world: World) -> Iterator[Move]:
        yield from self._faults(world)
        yield from self._leases(world)
        yield from self._people(world)
        for number, actor in enumerate(world.workers):
            if actor.doing == "idle":
                yield from self._receive(world, number)
                break
        for number in range(len(world.actors)):
            yield from self._act(world, number)

    # ---- misfortune

    def _faults(self, world: World) -> Iterator[Move]:
        for message in sorted(set(world.queue)):
            if worse := world.spend("loss"):
                yield "a message is lost", worse.take(message)
            if worse := world.spend("duplicate"):
                yield "a message is delivered twice", worse.give(message)
                yield "its sender sends a message twice", worse.give(message._replace(sender="d"))
        for number, actor in enumerate(world.actors):
            if actor.doing != "idle" and (worse := world.spend("crash")):
                yield f"{number} crashes", worse.fenced(number)
            if actor.message is not None and (worse := world.spend("duplicate")):
                yield f"the message of {number} becomes visible", worse.give(actor.message)

    def _leases(self, world: World) -> Iterator[Move]:
        state = world.control
        if state.lost_until > NOW:
            yield "lost executions are over", world.time_passes()
        if state.lease is None or state.lease.expires_at <= NOW:
            return
        if not any(actor.held and actor.holding and actor.held.token == state.token for actor in world.actors):
            yield "the lease expires", world._replace(control=replace(state, lease=EXPIRED))
            yield "the lease and its function expire", world._replace(control=replace(state, lease=EXPIRED_LONG_AGO))
        elif worse := world.spend("pause"):
            yield "the lease of a paused owner expires", worse._replace(control=replace(state, lease=EXPIRED))

    # ---- people and the supervisor

    def _people(self, world: World) -> Iterator[Move]:
        if worse := world.spend("cancel"):
            after = self._decide(world, ev.CancelAsked("somebody")).state
            if after is not world.control:
                yield "a cancel is accepted", worse._replace(control=after)
        for message in sorted(set(world.dead)):
            if worse := world.spend("redrive"):
                worse = worse._replace(dead=(), ghost=world.ghost._replace(grants=world.ghost.grants + 1))
                yield "the dead letter is redriven", worse.give(message._replace(sender="r"))
        if world.operator is not IDLE and world.operator != IDLE:
            return
        yield from self._supervise(world)
        for name, event in (("retry", ev.RetryAsked(LIVE)), ("compensate", ev.CompensateAsked(LIVE))):
            if (worse := world.spend(name)) and (after := self._taken(worse, event)):
                grants = worse.ghost.grants + (name == "retry")
                yield f"an operator asks to {name}", after._replace(ghost=worse.ghost._replace(grants=grants))

    def _supervise(self, world: World) -> Iterator[Move]:
        after = self._taken(world, ev.StallNoticed(LIVE))
        if after is None:
            return
        idle = not world.queue and all(actor.doing == "idle" for actor in world.workers)
        due = idle or world.control.lease is not None or world.control.cancel_requested_at
        if due:
            yield "the supervisor notices", after
        elif worse := after.spend("impatience"):
            yield "the supervisor is impatient", worse

    def _taken(self, world: World, event: ev.Event) -> World | None:
        decision = self._decide(world, event)
        if decision.state is world.control:
            return None
        (write,) = commands(decision)
        assert isinstance(write, Write)
        actor = Actor("put", decision.state, fact=write.fact)
        return world._replace(control=decision.state, operator=actor)

    def _decide(self, world: World, event: ev.Event) -> Decision:
        return decide(self.plan, world.control, event, NOW)

    # ---- a message arrives

    def _receive(self, world: World, number: int) -> Iterator[Move]:
        for message in sorted(set(world.queue)):
            decision = self._decide(world, message.arrived())
            self._check_claim(world.control, message, decision)
            after = self._received(world.take(message), number, message, decision)
            if after is not None:
                yield f"{number} receives {tuple(message)}: {commands(decision)}", after

    def _check_claim(self, state: SagaState, message: Message, decision: Decision) -> None:
        """The store claims by a condition, without asking the automaton: both must agree."""
        runs = any(isinstance(command, Run) for command in commands(decision))
        plan = self.plan.steps[message.step]
        here = plan.has_undo if message.undo else not plan.code_missing
        if runs is not (here and _claimable(state, message)):
            raise Violation(f"I7: the automaton says {commands(decision)}, the store's condition says otherwise")

    def _received(self, world: World, number: int, message: Message, decision: Decision) -> World | None:
        for command in commands(decision):
            match command:
                case Run(index, undo):
                    return self._claimed(world, number, message, decision.state, index, undo)
                case Write(fact):
                    actor = Actor("put", decision.state, fact=fact, message=message)
                    return world._replace(control=decision.state).with_actor(number, actor)
                case Send():
                    world = world.give(_letter(command))
                case Die():
                    return world._replace(dead=(message,))
                case Discard():
                    return world
                case Postpone():
                    return None
                case _:
                    raise Violation(f"a message cannot be answered by {command}")
        return world

    def _claimed(self, world: World, number: int, message: Message, state: SagaState, index: int, undo: bool) -> World:
        ghost = world.ghost
        if not undo:
            if ghost.open[index]:
                raise Violation(f"I4: step {index} is claimed again, its last attempt has no entry")
            ghost = ghost.plus("open", index)
        actor = Actor("run", state, index, undo, message=message)
        return world._replace(control=state, ghost=ghost).with_actor(number, actor)

    # ---- an actor's next request

    def _act(self, world: World, number: int) -> Iterator[Move]:
        actor = world.actors[number]
        does: dict[str, Callable[[World, int, Actor], Iterator[Move]]] = {
            "run": self._run,
            "put": self._put,
            "commit": self._commit,
            "send": self._send,
        }
        if actor.doing != "idle":
            yield from does[actor.doing](world, number, actor)

    def _run(self, world: World, number: int, actor: Actor) -> Iterator[Move]:
        index, name = actor.step, "undo_ran" if actor.undo else "ran"
        world = world._replace(ghost=world.ghost.plus(name, index))
        check = self._check_undo if actor.undo else self._check_run
        check(world, actor)
        if actor.held is None:
            yield f"{number}, fenced long ago, runs step {index}", world.fenced(number)
            return
        for fact in self._outcomes(actor.held, index, actor.undo):
            yield f"{number} runs: {fact}", world.with_actor(number, actor._replace(doing="put", fact=fact))

    def _outcomes(self, state: SagaState, index: int, undo: bool) -> Iterator[ev.Fact]:
        step = state.steps[index]
        if undo:
            yield ev.StepCompensated(index, step.undo_attempts)
            last = step.undo_attempts - step.undo_attempts_at_grant >= self.plan.steps[index].undo_executions
            kind = ev.CompensationFailed if last else ev.CompensationAttemptFailed
            yield kind(index, step.undo_attempts, BOOM)
            return
        yield ev.StepCompleted(index, step.attempts)
        yield ev.StepFailed(index, step.attempts, BOOM)
        if self.permanent:
            yield ev.StepFailed(index, step.attempts, BOOM, permanent=True, rejected=True)

    def _check_run(self, world: World, actor: Actor) -> None:
        state, ghost, index = world.control, world.ghost, actor.step
        current = actor.held is not None and actor.held.token == state.token
        over = state.over and (current or state.status is not SagaStatus.COMPLETED)
        if state.undoing or over:
            raise Violation(f"I1: step {index} runs while the saga is {state.status}")
        if ghost.undo_ran[index]:
            raise Violation(f"I1: step {index} runs after its undo ran")
        journaled = world.slot is not None and isinstance(world.slot[0], ev.StepCompleted)
        if current and (ghost.completed[index] or (journaled and world.slot and _index(world.slot[0]) == index)):
            raise Violation(f"I3: the result of step {index} is in the journal, and it runs again")
        if ghost.ran[index] > self.plan.steps[index].executions * (1 + ghost.grants):
            raise Violation(f"I6: step {index} runs too often")

    def _check_undo(self, world: World, actor: Actor) -> None:
        ghost, index = world.ghost, actor.step
        if actor.held is not None and actor.held.token == world.control.token and ghost.undone[index]:
            raise Violation(f"I3: the undo of step {index} is committed, and it runs again")
        if ghost.undo_ran[index] > self.plan.steps[index].undo_executions * (1 + ghost.grants):
            raise Violation(f"I6: the undo of step {index} runs too often")

    def _put(self, world: World, number: int, actor: Actor) -> Iterator[Move]:
        held, fact = actor.held, _addressed(actor)
        assert held is not None
        decision = decide(self.plan, held, fact, NOW)
        if decision.state is held:
            yield from self._superseded(world, number, actor, fact)
        elif _ends(held, decision):
            yield from self._finish(world, number, actor, fact)
        elif world.slot is None:
            after = world._replace(slot=(fact, held.token))
            yield f"{number} puts {fact}", after.with_actor(number, actor._replace(doing="commit", fact=fact))
            if worse := after.spend("unanswered"):
                yield f"{number} puts {fact}, and hears nothing", worse
        else:
            yield self._adopt(world, number, actor)

    def _superseded(self, world: World, number: int, actor: Actor, fact: ev.Fact) -> Iterator[Move]:
        assert actor.held is not None
        pending = rules.next_fact(self.plan, actor.held)
        if pending is None or pending == fact:
            if actor.held.token == world.control.token:
                raise Violation(f"I5: the holder's own {fact} does not fit")
            yield f"{number} is fenced", world.fenced(number)
            return
        yield f"{number}: {fact} is superseded", world.with_actor(number, actor._replace(fact=pending))

    def _adopt(self, world: World, number: int, actor: Actor) -> Move:
        assert world.slot is not None
        assert actor.held is not None
        found, token = world.slot
        if token > actor.held.token:
            return f"{number}: a successor was here", world.fenced(number)
        return f"{number} adopts {found}", world.with_actor(number, actor._replace(doing="commit", fact=found))

    def _finish(self, world: World, number: int, actor: Actor, fact: ev.Fact) -> Iterator[Move]:
        """Put and commit in one transaction."""
        if world.slot is not None:
            yield self._adopt(world, number, actor)
            return
        yield from self._commit(world, number, actor._replace(fact=fact, doing="put"))

    def _commit(self, world: World, number: int, actor: Actor) -> Iterator[Move]:
        held, fact, control = actor.held, actor.fact, world.control
        assert held is not None
        assert fact is not None
        if held.token != control.token or control.lease is None:
            yield f"{number} is fenced", world.fenced(number)
            return
        decision = decide(self.plan, held, fact, NOW)
        if decision.state is held:
            raise Violation(f"I5: the journal holds {fact}, which fits no more: nobody can go on")
        if control.cancel_requested_at and _minds_cancel(held, decision.state):
            yield f"{number}: a cancel won", world.with_actor(number, actor._replace(held=control))
            return
        after = self._committed(world, fact, decision.state)
        yield f"{number} commits {fact}: {after.control.status}", self._follow(after, number, actor, decision)
        if actor.doing == "commit" and (worse := self._follow(after, number, actor, decision).spend("unanswered")):
            yield f"{number} commits {fact}, hears nothing, and finds its own write", worse

    def _committed(self, world: World, fact: ev.Fact, after: SagaState) -> World:
        before = world.control
        if after.seq != before.seq + 1:
            raise Violation(f"I2: {fact} moved the pointer from {before.seq} to {after.seq}")
        if after.recovery_attempts > self.plan.max_recovery_attempts + 1:
            raise Violation("I5: it stalls beyond its patience and is not given up")
        flag = max(after.cancel_requested_at, before.cancel_requested_at)
        lease = before.lease if after.lease else None
        world = self._accounted(world, fact)
        world = world._replace(control=replace(after, cancel_requested_at=flag, lease=lease), slot=None)
        check_end(world, tuple(step.has_undo for step in self.plan.steps))
        return world

    def _accounted(self, world: World, fact: ev.Fact) -> World:
        ghost, index = world.ghost, _index(fact)
        if isinstance(fact, ev.StepCompleted | ev.StepFailed | ev.StepLost):
            ghost = ghost.plus("open", index, -1)
        if isinstance(fact, ev.StepLost):
            ghost = ghost.put("lost", index, True)
        if isinstance(fact, ev.StepCompleted | ev.StepCompensated):
            name = "completed" if isinstance(fact, ev.StepCompleted) else "undone"
            ghost = ghost.plus(name, index).put("lost", index, False)
            if getattr(ghost, name)[index] > 1:
                raise Violation(f"I2: {fact} is committed twice")
        if isinstance(fact, ev.CompensationStarted) and world.control.undoing:
            raise Violation("I1: undoing begins twice")
        return world._replace(ghost=ghost)

    def _follow(self, world: World, number: int, actor: Actor, decision: Decision) -> World:
        for command in commands(decision):
            if isinstance(command, Write):
                following = actor._replace(doing="put", held=world.control, fact=command.fact)
                return world.with_actor(number, following)
            if isinstance(command, Send):
                return world.with_actor(number, Actor("send", message=actor.message, send=command))
        if world.control.status is SagaStatus.DEAD_LETTERED and actor.message is not None:
            if world.control.dead == actor.message.identity:
                return world._replace(dead=(actor.message,)).with_actor(number, IDLE)
            return world.fenced(number)
        return world.with_actor(number, IDLE)

    def _send(self, world: World, number: int, actor: Actor) -> Iterator[Move]:
        assert actor.send is not None
        letter = _letter(actor.send)
        if actor.message is not None and actor.message.dispatch == letter.dispatch:
            yield f"{number} keeps its message", world.fenced(number)
            return
        yield f"{number} sends", world.give(letter).with_actor(number, IDLE)
        if actor.message is not None and (worse := world.give(letter).spend("crash")):
            yield f"{number} sends and crashes", worse.fenced(number)


def _letter(send: Send) -> Message:
    return Message(send.index, send.undo, send.dispatch)


def _index(fact: ev.Fact) -> int:
    return int(getattr(fact, "index", 0))


def _addressed(actor: Actor) -> ev.Fact:
    """Only the saga's current message may die; without it at hand, it is sent anew."""
    fact, held = actor.fact, actor.held
    assert fact is not None
    assert held is not None
    if not isinstance(fact, ev.StepDeadLettered) or fact.message is not None or rules.code_missing(fact):
        return fact
    current = actor.message is not None and actor.message.dispatch == held.dispatch
    return replace(fact, message=actor.message.identity) if current and actor.message else ev.Recovered(stall=False)


def _ends(before: SagaState, decision: Decision) -> bool:
    after = decision.state
    stops = after.over or after.status is SagaStatus.DEAD_LETTERED
    writes = any(isinstance(command, Write) for command in commands(decision))
    return stops and after.status is not before.status and not writes


def _minds_cancel(before: SagaState, after: SagaState) -> bool:
    """Whether the commit is on condition that no cancel was accepted."""
    return before.status in _FORWARD and not before.cancel_requested_at and not after.undoing


def _claimable(state: SagaState, message: Message) -> bool:
    """The condition under which the store lets a message claim its step or undo, without a read."""
    fits = state.lease is None and state.cursor == message.step and state.dispatch == message.dispatch
    if not fits or state.not_before > NOW:
        return False
    if message.undo:
        return state.undoing and state.lost_until <= NOW
    ready = state.steps[message.step].status in (StepStatus.PENDING, StepStatus.RETRYING)
    free = not state.cancel_requested_at and not state.recovery_exhausted
    return state.status in _FORWARD and ready and free
