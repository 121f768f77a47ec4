"""What changed since the last release, what becomes of sagas in flight, and what to do.

Each kind of change is judged by what the engine does with sagas that the last release started: see
``tests/engine/test_lock_agrees.py``, which has it do so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sagas.authoring.definition.definition import KINDS, SagaDefinition, StepDefinition
from sagas.lock.content import Content, content_of, taken_by
from sagas.lock.fitting import Types, misfits

_WAIT = "a saga waits for an operator (TypeChanged) until code that fits is deployed"
_GONE = "deploy it until `sagas list --name {saga}` shows none under way that has it"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a saga type.

    Args:
        saga: its name.
        where: the step or field; empty where it is the type as a whole.
        what: what changed.
        effect: what becomes of sagas in flight.
        todo: what to do about it; empty where there is nothing.
        breaks: whether sagas in flight cannot go on by themselves.
    """

    saga: str
    where: str
    what: str
    effect: str
    todo: str = ""
    breaks: bool = True

    def __str__(self) -> str:
        place = f"{self.saga}, {self.where}" if self.where else self.saga
        return f"{place}: {self.what}. Sagas in flight: {self.effect}." + (f" {self.todo}." if self.todo else "")


def changes(locked: Content, definitions: Iterable[SagaDefinition]) -> list[Change]:
    """Return the changes since the last release, those that break sagas in flight first."""
    now, found = {one.name: one for one in definitions}, list[Change]()
    for name, old in sorted(locked["sagas"].items()):
        if name in now:
            found += _of_type(old, now[name])
            continue
        effect = "nothing moves them; the supervisor counts each (SagaWithoutCode) until the type is deployed again"
        found.append(Change(name, "", "the saga type was removed or renamed", effect, f"Keep it: {_kept(name)}"))
    for name in sorted(now.keys() - locked["sagas"].keys()):
        found.append(Change(name, "", "a new saga type", "there are none", breaks=False))
    return sorted(found, key=lambda one: not one.breaks)


def _kept(saga: str) -> str:
    return _GONE.format(saga=saga)


def _of_type(old: Content, definition: SagaDefinition) -> Iterator[Change]:
    new: Content = content_of([definition])["sagas"][definition.name]
    before = {step["name"]: step for step in old["steps"]}
    yield from _gone(definition, before, [step.name for step in definition.steps])
    yield from _values(old, new, definition)
    for step in definition.steps:
        if step.name not in before:
            yield Change(definition.name, f'step "{step.name}"', "was added", "they do not run it", breaks=False)
            continue
        yield from _kind(definition, before[step.name].get("waits_for", ""), step)
        # What it takes now, and they do not have when they come to it.
        earlier = list(before)[: list(before).index(step.name)]
        for parameter in step.parameters:
            if parameter.step is not None and parameter.step not in earlier:
                what = f'takes the result of "{parameter.step}"'
                effect = "they have none by then: it fails for good (PermanentError), and its on_exhausted decides"
                todo = "Take it in a new step, or make that a new saga type"
                yield Change(definition.name, f'step "{step.name}"', what, effect, todo)
        for parameter in step.undo.parameters if step.undo is not None else ():
            if parameter.step not in (None, step.name, *earlier):
                where, what = f'the undo of "{step.name}"', f'takes the result of "{parameter.step}"'
                effect = "they have none: that undo fails, and they end COMPENSATION_FAILED"
                yield Change(definition.name, where, what, effect, "Undo it by what its step returns")
        yield from _policies(definition, before[step.name], step)
    shared = [step["name"] for step in new["steps"] if step["name"] in before]
    if shared != [name for name in before if name in shared]:
        effect = "they keep theirs, also when they are undone"
        yield Change(definition.name, "", "the order of the steps changed", effect, breaks=False)
    if "prefix" in old and old["prefix"] != definition.prefix:
        effect = (
            f"`ctx.s3_key` leads to the new prefix: what they stored under {old['prefix']} is neither found nor swept"
        )
        todo = "Keep the prefix while any is under way, and sweep the old one by hand"
        yield Change(definition.name, "orphans", f"the prefix is {definition.prefix} now", effect, todo)


def _gone(definition: SagaDefinition, before: dict[str, Any], names: list[str]) -> Iterator[Change]:
    """Steps that are not there any more."""
    added = [name for name in names if name not in before]
    for position, (name, step) in enumerate(before.items()):
        if name in names:
            continue
        where = f'step "{name}"'
        renamed = position < len(names) and names[position] in added
        what = f'was removed, or renamed to "{names[position]}"' if renamed else "was removed"
        undone = "; its undo ends COMPENSATION_FAILED" if "undo" in step else ""
        effect = f"those that have to run it wait for an operator (DEAD_LETTERED, CodeGone){undone}"
        if step.get("retired"):
            effect = f"those from before it was retired: {effect}"
            todo = f"See that `sagas list --name {definition.name}` shows none under way that has it"
            yield Change(definition.name, where, what, effect, todo, breaks=False)
            continue
        todo = f"Keep it under its name, with @step(retired=True), and {_kept(definition.name)}"
        if step.get("waits_for"):  # which cannot be retired
            todo = "Keep it under its name, and make what does without it a new saga type"
        yield Change(definition.name, where, what, effect, todo)


def _kind(definition: SagaDefinition, was: str, step: StepDefinition) -> Iterator[Change]:
    """A step that waits now, or no more, or for something else, under the same name."""
    if was == step.waits_for:
        return
    what = f"is {KINDS[step.waits_for]} now, was {KINDS[was]}"
    effects = ["those that wait there take no signal any more, and time out"] if was == "signal" else []
    if step.waits_for:
        effects.append("those that come to it wait for an operator (TypeChanged or CodeGone)")
    todo = f"Give it another name, and keep the old one: {_kept(definition.name)}" if effects else ""
    effect = "; ".join(effects) or "those that wait there go on as before"
    yield Change(definition.name, f'step "{step.name}"', what, effect, todo, breaks=bool(effects))


def _values(old: Content, new: Content, definition: SagaDefinition) -> Iterator[Change]:
    """The request, and results of steps, as they are stored."""
    types = Types(old.get("types", {}), new.get("types", {}))
    known = [step["name"] for step in old["steps"]]
    results = {step["name"]: step["result"] for step in new["steps"]}
    pairs = {"request": (old["request"], new["request"])}
    pairs |= {step["name"]: (step["result"], results[step["name"]]) for step in old["steps"] if step["name"] in results}
    for name, (was, now) in pairs.items():
        takers = list[str]()
        for step in (step for step in definition.steps if step.name in known):
            if name in taken_by(step):
                takers.append(f"step {step.name}")
            if step.undo is not None and name in taken_by(step.undo):
                takers.append(f"the undo of {step.name}")
        for misfit in misfits(was, now, types):
            field = (
                f"the request, {misfit.path}" if name == "request" else f'the result of step "{name}", {misfit.path}'
            )
            if not takers:
                yield Change(definition.name, field, misfit.what, "none of their steps takes it", breaks=False)
                continue
            effect = f"{' and '.join(takers)} cannot be called with it: {_WAIT}"
            todo = "Take the old form as well (`Old | New`), or add a field with a default beside it"
            if "default" in misfit.what:
                todo = "Give it a default"
            elif "removed" in misfit.what:
                todo = "Keep it, with a default, while any is under way"
            yield Change(definition.name, field, misfit.what, effect, todo)


def _policies(definition: SagaDefinition, old: Content, step: StepDefinition) -> Iterator[Change]:
    name, where = definition.name, f'step "{step.name}"'
    if "undo" in old and step.undo is None:
        effect = "those that are undone end COMPENSATION_FAILED (CodeGone)"
        yield Change(name, where, "has no undo any more", effect, f"Keep the undo: {_kept(name)}")
    if "undo" not in old and step.undo is not None:
        yield Change(name, where, "has an undo now", "it undoes the step in them, too", breaks=False)
    was, now = old.get("undo_when", "completed"), step.undo_when
    if was != now:
        effect = f"they are undone by the new rule: when the step was {now}"
        yield Change(name, where, f"undo_when is {now!r} now, was {was!r}", effect, breaks=False)
    was, policy = old.get("on_exhausted", "COMPENSATE"), step.on_exhausted.value
    if was != policy:
        effect = f"a step that is exhausted from now on leads to {policy}"
        yield Change(name, where, f"on_exhausted is {policy} now, was {was}", effect, breaks=False)
    if bool(old.get("pivot")) != step.pivot:
        what = "is the pivot" if step.pivot else "is not the pivot any more"
        yield Change(name, where, what, "those under way keep the pivot that they began with", breaks=False)
    if bool(old.get("retired")) != step.retired:
        what = "is retired" if step.retired else "is not retired any more"
        effect = "they run it" if step.retired else "those that have it run it"
        yield Change(name, where, what, effect, breaks=False)
