"""The changes since the last release, their effect on sagas in flight, and advice.

Each effect is what the engine does with sagas that the last release started; ``tests/engine/test_lock_agrees.py``
checks that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from sagas.authoring.definition.definition import SagaDefinition, StepDefinition
from sagas.core.fit import KINDS
from sagas.lock.content import Content, content_of, inputs_of
from sagas.lock.fitting import Types, misfits

_WAIT = "such a saga waits for an operator (TypeChanged) until matching code is deployed"
_REMOVABLE = "deploy it until `sagas list {saga}` shows no saga in flight that has it"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a saga type.

    Args:
        saga: the type's name.
        where: the step or field; empty for the type as a whole.
        what: what changed.
        effect: what happens to sagas in flight.
        todo: what to do about it; empty if nothing.
        breaks: whether sagas in flight cannot continue without help.
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
    now, changed = {definition.name: definition for definition in definitions}, list[Change]()
    for name, old in sorted(locked["sagas"].items()):
        if name in now:
            changed += _of_type(old, now[name])
            continue
        effect = "they stop, and the supervisor counts each (SagaWithoutCode), until the type is deployed again"
        changed.append(
            Change(name, "", "the saga type was removed or renamed", effect, f"Keep it: {_until_unused(name)}")
        )
    for name in sorted(now.keys() - locked["sagas"].keys()):
        changed.append(Change(name, "", "a new saga type", "none exist yet", breaks=False))
    return sorted(changed, key=lambda change: not change.breaks)


def _until_unused(saga: str) -> str:
    return _REMOVABLE.format(saga=saga)


def _of_type(old: Content, definition: SagaDefinition) -> Iterator[Change]:
    new: Content = content_of([definition])["sagas"][definition.name]
    before = {step["name"]: step for step in old["steps"]}
    yield from _removed(definition, before, [step.name for step in definition.steps])
    yield from _values(old, new, definition)
    for step in definition.steps:
        if step.name not in before:
            yield Change(definition.name, f'step "{step.name}"', "was added", "they do not run it", breaks=False)
            continue
        yield from _kind(definition, before[step.name].get("waits_for", ""), step)
        # Results that it takes now and that sagas in flight do not have at this step.
        earlier = list(before)[: list(before).index(step.name)]
        for parameter in step.parameters:
            if parameter.step is not None and parameter.step not in earlier:
                what = f'takes the result of "{parameter.step}"'
                effect = (
                    "they have no such result yet: the step fails for good (PermanentError), and on_exhausted applies"
                )
                todo = "Use it in a new step, or create a new saga type"
                yield Change(definition.name, f'step "{step.name}"', what, effect, todo)
        for parameter in step.undo.parameters if step.undo is not None else ():
            if parameter.step not in (None, step.name, *earlier):
                where, what = f'the undo of "{step.name}"', f'takes the result of "{parameter.step}"'
                effect = "they have no such result: the undo fails, and they end COMPENSATION_FAILED"
                yield Change(definition.name, where, what, effect, "Use only the result of its own step in the undo")
        yield from _policies(definition, before[step.name], step)
    shared = [step["name"] for step in new["steps"] if step["name"] in before]
    if shared != [name for name in before if name in shared]:
        effect = "they keep their order, also when they are undone"
        yield Change(definition.name, "", "the order of the steps changed", effect, breaks=False)
    if "prefix" in old and old["prefix"] != definition.prefix:
        effect = (
            f"`ctx.s3_key` uses the new prefix, so objects stored under {old['prefix']} are neither found nor swept"
        )
        todo = "Keep the prefix while any are in flight, and then sweep the old prefix by hand"
        yield Change(definition.name, "orphans", f"the prefix changed to {definition.prefix}", effect, todo)


def _removed(definition: SagaDefinition, before: dict[str, Any], names: list[str]) -> Iterator[Change]:
    """Steps that were removed."""
    added = [name for name in names if name not in before]
    for position, (name, step) in enumerate(before.items()):
        if name in names:
            continue
        where = f'step "{name}"'
        renamed = position < len(names) and names[position] in added
        what = f'was removed, or renamed to "{names[position]}"' if renamed else "was removed"
        undone = "; its undo ends COMPENSATION_FAILED" if "undo" in step else ""
        effect = f"any that still has to run it waits for an operator (DEAD_LETTERED, CodeGone){undone}"
        if step.get("retired"):
            effect = f"those started before it was retired: {effect}"
            todo = f"Make sure that `sagas list {definition.name}` shows no saga in flight that has it"
            yield Change(definition.name, where, what, effect, todo, breaks=False)
            continue
        how = "retired=True" if step.get("waits_for") else "@step(retired=True)"
        todo = f"Keep it under its name with {how}, and {_until_unused(definition.name)}"
        yield Change(definition.name, where, what, effect, todo)


def _kind(definition: SagaDefinition, was: str, step: StepDefinition) -> Iterator[Change]:
    """A step that has changed its kind under the same name."""
    if was == step.waits_for:
        return
    what = f"changed from {KINDS[was]} to {KINDS[step.waits_for]}"
    effects = ["those that wait there no longer accept a signal, and time out"] if was == "signal" else []
    if step.waits_for:
        effects.append("those that reach it wait for an operator (TypeChanged or CodeGone)")
    todo = f"Give the new step another name, and keep the old one: {_until_unused(definition.name)}" if effects else ""
    effect = "; ".join(effects) or "those that wait there continue as before"
    yield Change(definition.name, f'step "{step.name}"', what, effect, todo, breaks=bool(effects))


def _values(old: Content, new: Content, definition: SagaDefinition) -> Iterator[Change]:
    """Changes to the stored form of the request and of step results."""
    types = Types(old.get("types", {}), new.get("types", {}))
    old_names = [step["name"] for step in old["steps"]]
    results = {step["name"]: step["result"] for step in new["steps"]}
    pairs = {"request": (old["request"], new["request"])}
    pairs |= {step["name"]: (step["result"], results[step["name"]]) for step in old["steps"] if step["name"] in results}
    for name, (was, now) in pairs.items():
        takers = list[str]()
        for step in (step for step in definition.steps if step.name in old_names):
            if name in inputs_of(step):
                takers.append(f"step {step.name}")
            if step.undo is not None and name in inputs_of(step.undo):
                takers.append(f"the undo of {step.name}")
        for misfit in misfits(was, now, types):
            field = (
                f"the request, {misfit.path}" if name == "request" else f'the result of step "{name}", {misfit.path}'
            )
            if not takers or name in definition.upcast:
                effect = (
                    "its upcast reads the old form, which is not checked" if takers else "none of their steps uses it"
                )
                yield Change(definition.name, field, misfit.what, effect, breaks=False)
                continue
            effect = f"{' and '.join(takers)} cannot take the old form: {_WAIT}"
            todo = "Accept the old form as well (`Old | New`), or add a separate field with a default"
            if "default" in misfit.what:
                todo = "Give it a default"
            elif "removed" in misfit.what:
                todo = "Keep it, with a default, while any are in flight"
            yield Change(definition.name, field, misfit.what, effect, todo)


def _policies(definition: SagaDefinition, old: Content, step: StepDefinition) -> Iterator[Change]:
    name, where = definition.name, f'step "{step.name}"'
    if "undo" in old and step.undo is None:
        effect = "those that are undone end COMPENSATION_FAILED (CodeGone)"
        yield Change(name, where, "no longer has an undo", effect, f"Keep the undo: {_until_unused(name)}")
    if "undo" not in old and step.undo is not None:
        yield Change(name, where, "now has an undo", "the undo applies to them, too", breaks=False)
    was, now = old.get("undo_when", "completed"), step.undo_when
    if was != now:
        effect = f"the new rule applies to them: the step is undone when it was {now}"
        yield Change(name, where, f"undo_when changed from {was!r} to {now!r}", effect, breaks=False)
    was, policy = old.get("on_exhausted", "COMPENSATE"), step.on_exhausted.value
    if was != policy:
        effect = f"{policy} applies to steps that are exhausted from now on"
        yield Change(name, where, f"on_exhausted changed from {was} to {policy}", effect, breaks=False)
    if bool(old.get("pivot")) != step.pivot:
        what = "is now the pivot" if step.pivot else "is no longer the pivot"
        yield Change(name, where, what, "they keep the pivot that they started with", breaks=False)
    if bool(old.get("retired")) != step.retired:
        what = "is now retired" if step.retired else "is no longer retired"
        effect = "they still run it" if step.retired else "those that have it run it"
        yield Change(name, where, what, effect, breaks=False)
