"""Judges whether deployed code fits the sagas of a blueprint, at one position or at all positions.

As in the engine, :func:`sagas.core.fit.fit` judges structure; :func:`sagas.lock.fitting.misfits` judges values.
``tests/engine/test_lock_agrees.py`` checks that the engine does what this module says.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from sagas.authoring.definition.definition import Parameter, SagaDefinition, StepDefinition
from sagas.core.fit import KINDS, Deployed, Fit, fit
from sagas.core.states import SagaStatus, StepState, StepStatus
from sagas.lock.content import Content, blueprint_of, inputs_of
from sagas.lock.fitting import Types, misfits

_UNDOING = (SagaStatus.COMPENSATING, SagaStatus.COMPENSATION_FAILED, SagaStatus.FAILED)
_BY_OLD_CODE = (StepStatus.RUNNING, StepStatus.COMPLETED, StepStatus.COMPENSATING, StepStatus.COMPENSATION_FAILED)
"""Statuses of steps whose results the old code has stored, or may still store."""


class Position(NamedTuple):
    """The position that some sagas of a blueprint have, as in their control items."""

    status: SagaStatus
    cursor: int
    steps: Sequence[StepStatus]


class Finding(NamedTuple):
    """A difference that affects sagas in flight.

    Args:
        where: the step, undo or value that differs.
        what: a clause that says what differs. "It" stands for ``where``.
        effect: what would happen to the sagas, as the words after "they"; empty if they continue.
        todo: how to prevent this effect.
    """

    where: str
    what: str
    effect: str = ""
    todo: str = ""


def judge(
    old: Content, new: SagaDefinition | None, at: Position | None = None, deployed: Content | None = None
) -> list[Finding]:
    """Return how the code ``new`` affects sagas of the blueprint ``old``, at one position or at all positions.
    Differences that stop sagas come first. ``new`` is ``None`` if the type would not be deployed. ``deployed`` is the
    current blueprint."""
    if new is None:
        effect = "would be dead-lettered, or end COMPENSATION_FAILED if they are being undone (CodeGone)"
        return [Finding("", "the type is gone", effect, "Keep the type while `sagas list` shows sagas in flight")]
    blueprint = blueprint_of(new)
    if old == blueprint and old == (deployed or old):
        return []
    judging = _Judging(old, new, blueprint, at)
    stopping = dict.fromkeys((*judging.structure(), *judging.missing_results(), *judging.values()))
    return [*stopping, *judging.differences(deployed or old)]


class _Judging:
    """Sagas of one blueprint at a position, and the code that they would run."""

    def __init__(self, old: Content, new: SagaDefinition, blueprint: Content, at: Position | None) -> None:
        self.old = old
        self.new = blueprint
        self.at = at
        # Sagas of this blueprint do not have its retired steps, but sagas of earlier blueprints may.
        self.steps = [step for step in old["steps"] if at is None or not step.get("retired")]
        self.names: list[str] = [step["name"] for step in self.steps]
        code = {step.name: step for step in new.steps}
        self.pairs = [(index, code.get(name)) for index, name in enumerate(self.names)]
        self.fits = [self._fit(step, now) for step, (_, now) in zip(self.steps, self.pairs, strict=True)]
        self.prefix = new.prefix
        self.upcast = new.upcast

    @staticmethod
    def _fit(step: Content, now: StepDefinition | None) -> Fit:
        kind = step.get("waits_for", "")
        was = StepState(step["name"], undo="undo" in step or kind == "children", waits_for=kind)
        return fit(was, Deployed(now.waits_for, now.has_attempts, now.undo is not None) if now is not None else None)

    def _will_run(self, index: int) -> bool:
        """Whether the code of a step may run, or its policy may be asked for: the step is at the cursor or later, and
        is not a wait that only has to end."""
        if self.at is None:
            return True
        begun = self.at.steps[index] is StepStatus.WAITING
        ahead = index >= self.at.cursor and self.at.status not in _UNDOING
        return ahead and not (begun and self.steps[index].get("waits_for") == "time")

    def _may_undo(self, index: int, now: StepDefinition | None) -> bool:
        """Whether the undo of the step may run."""
        if self.at is None:
            return True
        status = self.at.steps[index]
        undoing = self.at.status in _UNDOING
        pivots = (its for its, step in zip(self.at.steps, self.steps, strict=True) if step.get("pivot"))
        ended = status in (StepStatus.COMPENSATED, StepStatus.SKIPPED)
        if ended or (not undoing and StepStatus.COMPLETED in pivots):
            return False
        if self.at.status is SagaStatus.COMPENSATION_FAILED:
            return status is StepStatus.COMPENSATION_FAILED
        failed = status is StepStatus.FAILED and (undoing or index < self.at.cursor)
        if failed and now is not None and now.undo is not None and now.undo_when != "started":
            return False
        return status is not StepStatus.PENDING and index <= self.at.cursor if undoing else True

    def _stored(self, index: int) -> bool:
        """Whether the result of the step may be stored by the old code."""
        if self.at is None or self.at.steps[index] in _BY_OLD_CODE:
            return True
        return self.at.steps[index] is StepStatus.WAITING and "sagas" in self.steps[index]

    def structure(self) -> Iterator[Finding]:
        """Yield the steps and undos for which the new code does not fit."""
        for (index, now), judged in zip(self.pairs, self.fits, strict=True):
            name = self.names[index]
            if now is None and self.steps[index].get("retired"):
                continue
            if judged.forward is not None and self._will_run(index):
                what, todo = self._misfit(index, now)
                begun = self.at is not None and self.at.steps[index] is StepStatus.WAITING
                failing = " if too many children fail" if begun and "sagas" in self.steps[index] else ""
                effect = f"would be dead-lettered{failing} ({judged.forward.type})"
                yield Finding(_step(name), what, effect, todo)
            elif judged.undo is not None and self._may_undo(index, now):
                effect = f"would end COMPENSATION_FAILED when undone ({judged.undo.type})"
                todo = f"Keep the undo of step {name!r} until no saga in flight needs it"
                yield Finding(f"the undo of {_step(name)}", "it is gone", effect, todo)

    def _misfit(self, index: int, now: StepDefinition | None) -> tuple[str, str]:
        name = self.names[index]
        kind = self.steps[index].get("waits_for", "")
        if now is not None:
            was, is_now = ("a wait" if each in ("signal", "time") else KINDS[each] for each in (kind, now.waits_for))
            if was == is_now:
                was = KINDS[kind]
                is_now = KINDS[now.waits_for]
            todo = f"Give the new step {name!r} another name, and keep the old step"
            return f"it is {is_now} now, and was {was}", todo
        return "it is gone", f"Keep step {name!r} with retired=True, or give the renamed one name={name!r}"

    def missing_results(self) -> Iterator[Finding]:
        """Yield the steps and undos whose inputs include results that these sagas do not have."""
        names = self.names
        for (index, now), judged in zip(self.pairs, self.fits, strict=True):
            if now is None or judged.forward is not None:
                continue
            for source in _needed(now.inputs) if self._will_run(index) else ():
                what = f"it takes the result of {_step(source)}"
                effect = "would be dead-lettered there (TypeChanged)"
                if source not in names[:index]:
                    todo = f"Take the result of {source!r} in a new step, or annotate it `... | None`"
                    yield Finding(_step(now.name), what, effect, todo)
                elif without := self._went_without(names.index(source)):
                    yield Finding(_step(now.name), f"{what}, {without}", effect, _allow_none(source))
            undo = now.undo.parameters if now.undo is not None and self._may_undo(index, now) else ()
            for source in _needed(undo):
                where = f"the undo of {_step(now.name)}"
                what = f"it takes the result of {_step(source)}"
                effect = "would end COMPENSATION_FAILED when undone (TypeChanged)"
                if source not in names[: index + 1]:
                    todo = "Take only the result of its own step in the undo, or annotate the other `... | None`"
                    yield Finding(where, what, effect, todo)
                elif source != now.name and (without := self._went_without(names.index(source))):
                    yield Finding(where, f"{what}, {without}", effect, _allow_none(source))

    def _went_without(self, index: int) -> str:
        """Return how these sagas went on without the result of a step, as the words after "the step"; empty if they did
        not."""
        skippable = bool(self.steps[index].get("when"))
        if self.at is None:
            return "which they may have skipped" if skippable else ""
        status = self.at.steps[index]
        if status is StepStatus.RUNNING and skippable:
            return "which they may skip"
        return "which they skipped" if status is StepStatus.SKIPPED else ""

    def values(self) -> Iterator[Finding]:
        """Yield the stored values that the code which takes them cannot read."""
        if "request" not in self.old:  # the blueprint of these sagas is unknown
            return
        types = Types(self.old.get("types", {}), self.new.get("types", {}))
        results = {step["name"]: step for step in self.new["steps"]}
        takers = self._takers()
        if "request" in takers:
            for misfit in misfits(self.old["request"], self.new["request"], types):
                yield self._unreadable("request", "the request", f", {misfit.path}", misfit.what, takers)
        for index, step in enumerate(self.steps):
            name = step["name"]
            now = results.get(step["name"])
            if now is None or name not in takers or not self._stored(index):
                continue
            where = f"the result of {_step(name)}"
            for misfit in misfits(step["result"], now["result"], types):
                yield self._unreadable(name, where, f", {misfit.path}", misfit.what, takers)
            was = step.get("sagas", ())
            children = now.get("sagas", ())
            if was and children and was != children:
                what = f"children ({', '.join(was)}) are ({', '.join(children)}) now"
                yield self._unreadable(name, where, "", what, takers)

    def _unreadable(
        self, source: str, where: str, path: str, what: str, takers: Mapping[str, Sequence[str]]
    ) -> Finding:
        if source in self.upcast:
            function = getattr(self.upcast[source], "__name__", "a function")
            return Finding(where, f"upcast by {function}: not checked")
        where += path
        todo = f"Accept the old form of {where} as well (`Old | New`), or convert it with upcast="
        if "default" in what:
            todo = f"Give {where} a default"
        elif "removed" in what:
            todo = f"Keep {where}, with a default, while any are in flight"
        step = next((taker for taker in takers[source] if taker.startswith("step")), "")
        effect = f"would be dead-lettered before {step}" if step else "would end COMPENSATION_FAILED when undone"
        return Finding(where, what, f"{effect} (TypeChanged)", todo)

    def _takers(self) -> dict[str, list[str]]:
        """Return, by value, the steps and undos that take this value and may still run."""
        takers = dict[str, list[str]]()
        for (index, now), judged in zip(self.pairs, self.fits, strict=True):
            if now is None:
                continue
            begun = self.at is not None and self.at.steps[index] is StepStatus.WAITING and now.waits_for
            if judged.forward is None and self._will_run(index) and not begun:
                for source in inputs_of(now):
                    takers.setdefault(source, []).append(_step(now.name))
            if now.undo is not None and judged.owes_undo and self._may_undo(index, now):
                for source in inputs_of(now.undo):
                    takers.setdefault(source, []).append(f"the undo of {_step(now.name)}")
        return takers

    def differences(self, deployed: Content) -> Iterator[Finding]:
        """Yield differences that stop no saga in flight, but that an operator should know about."""
        new = self.new
        now = {step["name"]: step for step in new["steps"]}
        missing = {step["name"] for step in self.old["steps"]} - {step["name"] for step in deployed["steps"]}
        for step in self.old["steps"]:
            name = step["name"]
            was = step.get("tolerate", 0)
            tolerated = now.get(name, {}).get("tolerate", 0)
            if step.get("waits_for") == now.get(name, {}).get("waits_for") == "children" and tolerated < was:
                yield Finding(_step(name), f"it tolerates {tolerated} failed children now, and tolerated {was}")
            if name in now and name in missing:
                yield Finding(_step(name), "it was removed and is back: it runs other code under an old name")
            if name not in now and step.get("retired"):
                what = "it was retired and is gone: make sure that no saga in flight has it"
                yield Finding(_step(name), what)
        for key in sorted({*self.old.get("find_by", ())} ^ {*new.get("find_by", ())}):
            yield Finding(f'search key "{key}"', "it changed: sagas in flight are not found by it")
        for source, paths in self.old.get("hidden", {}).items():
            no_longer = [path for path in paths if path not in new.get("hidden", {}).get(source, ())]
            for path in no_longer:
                value = ".".join((source, *path)).replace(".[", "[")
                yield Finding(f"the hidden value $.{value}", "it is shown now, but stays hidden in sagas in flight")
        if self.old.get("prefix", self.prefix) != self.prefix:
            what = f"the prefix is {self.prefix} now: objects under {self.old['prefix']} are neither found nor swept"
            yield Finding("orphans", what)


def _needed(parameters: Sequence[Parameter]) -> Iterator[str]:
    """Yield the steps whose results parameters take, if these do not allow None."""
    return (each.step for each in parameters if each.step is not None and not each.optional)


def _allow_none(source: str) -> str:
    return f"Annotate the result of {source!r} `... | None` while any are in flight"


def _step(name: str) -> str:
    return f'step "{name}"'
