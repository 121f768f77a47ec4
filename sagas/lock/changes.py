"""Finds what a release changes for sagas in flight: sagas of the lock file, or sagas of a stack."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct, ValidationError, convert, field

from sagas.authoring.definition.definition import SagaDefinition
from sagas.core.states import SagaStatus, StepStatus
from sagas.core.text import day
from sagas.errors import InvalidRequest, Problem
from sagas.lock.content import LETTERS, Content, blueprint_of, fault_of, hash_of, read_json
from sagas.lock.judging import Finding, Position, judge

_STATUSES = {letter: status for status, letter in LETTERS.items()}
_PLACES = {
    SagaStatus.COMPENSATING: "undoing",
    SagaStatus.DEAD_LETTERED: "dead-lettered at",
    SagaStatus.FAILED: "failed at",
    SagaStatus.COMPENSATION_FAILED: "that could not undo",
}
_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a saga type, and the sagas that it affects: some, in words, with their position, number and oldest
    ids, or any in flight if ``sagas`` is empty. ``where`` is the step, undo or value; empty for the whole type.
    ``what`` is a clause in which "it" stands for ``where``. ``effect`` is what would happen to these sagas, as the
    words after "they"; empty if they continue. ``todo`` says what to do about the change."""

    saga: str
    where: str
    what: str
    effect: str = ""
    todo: str = ""
    sagas: str = ""
    place: str = ""
    count: int = 0
    since: str = ""
    ids: tuple[str, ...] = ()

    @property
    def breaks(self) -> bool:
        """Whether the change stops sagas in flight, so they cannot continue without help."""
        return bool(self.effect)

    def __str__(self) -> str:
        head = [self.saga, self.sagas or self.where]
        what = self.what
        if self.count:
            count = f"{self.count:,} {'saga' if self.count == 1 else 'sagas'}"
            head[1] = f"{count} {self.sagas} since {day(self.since)}"
        if self.sagas:
            head[1] += f" {self.place}" if self.place else ""
            if what.startswith("it ") and not self.place.endswith(f" {self.where}"):
                what = self.where + what.removeprefix("it")
            elif self.where and not what.startswith("it "):
                what = f"{self.where}: {what}"
        effect = f" {'They' if self.sagas else 'Sagas in flight'} {self.effect}." if self.effect else ""
        return f"{', '.join(part for part in head if part)}: {what}.{effect}"


def changes(locked: Content, definitions: Iterable[SagaDefinition]) -> list[Change]:
    now = {definition.name: definition for definition in definitions}
    types = sorted(locked["sagas"].items())
    found = [Change(name, *finding) for name, old in types for finding in judge(old, now.get(name))]
    return sorted(found, key=lambda change: not change.breaks)


def changes_in_flight(in_flight: Content, definitions: Iterable[SagaDefinition]) -> list[Change]:
    """Return the changes that affect the sagas of a stack. Changes that stop sagas come first. ``in_flight`` has the
    API's answer for each type, as in a file of ``sagas check --save``. ``definitions`` are the types to deploy."""
    now = {definition.name: definition for definition in definitions}
    found = list[Change]()
    children = set[str]()
    for name, answer in sorted(in_flight["types"].items()):
        blueprints = answer["blueprints"]
        new = now.get(name)
        deployed = blueprints.get(answer.get("deployed"))
        unknown = sum(g["count"] for g in answer["groups"] if "request" not in blueprints[g["blueprint"]])
        if unknown:
            who = f"{unknown:,} {'saga' if unknown == 1 else 'sagas'} of an unknown blueprint"
            found.append(Change(name, "", f"{who}; steps were judged, values were not"))
        for group in answer["groups"]:
            found += _of_group(name, group, blueprints, new, deployed)
            children |= {child for step in blueprints[group["blueprint"]]["steps"] for child in step.get("sagas", ())}
        if new is not None and deployed is not None:
            sagas = f"new ones until you deploy, of version {deployed['version']}"
            found += _warnings(name, judge(deployed, new), sagas)
    for name in sorted(children & now.keys() & in_flight["types"].keys()):
        for old in in_flight["types"][name]["blueprints"].values():
            # If a parent is undone, its completed children are, too. They are not counted.
            steps = [step for step in old["steps"] if not step.get("retired")]
            done = Position(SagaStatus.COMPENSATING, len(steps) - 1, (StepStatus.COMPLETED,) * len(steps))
            sagas = f"completed children of version {old['version']}, which may exist"
            found += _warnings(name, judge(old, now[name], done), sagas)
    return sorted(_merged(found), key=lambda change: not change.breaks)


def _of_group(
    name: str, group: Content, blueprints: Content, new: SagaDefinition | None, deployed: Content | None
) -> Iterator[Change]:
    """Yield the changes that affect sagas at one position."""
    old = blueprints[group["blueprint"]]
    status = SagaStatus(group["status"])
    cursor = group["cursor"]
    letters = group["steps"]
    steps = [step["name"] for step in old["steps"] if not step.get("retired")]
    moving = "after" if cursor == len(steps) else "at" if letters[cursor] in "RW" else "before"
    place = f'{_PLACES.get(status, moving)} step "{steps[min(cursor, len(steps) - 1)]}"'
    ids = tuple(group.get("examples", ()))
    sagas = f"of version {old['version']}"
    at = Position(status, cursor, tuple(_STATUSES[letter] for letter in letters))
    # If this code was deployed before, the deployment is a rollback, and removes steps that the current code has added.
    back = new is not None and hash_of(blueprint_of(new)) in blueprints
    added = {f'step "{step["name"]}"' for step in (deployed or old)["steps"]} if back else set[str]()
    for where, what, effect, todo in judge(old, new, at, deployed):
        what = "it was added and is gone" if what == "it is gone" and where in added else what
        stop = place if effect else ""
        yield Change(name, where, what, effect, todo, sagas, stop, group["count"], group["oldest"], ids)


def _warnings(name: str, findings: Iterable[Finding], sagas: str) -> list[Change]:
    """Warn about changes that would stop sagas whose number is unknown and may be 0."""
    stops = (finding for finding in findings if finding.effect)
    return [Change(name, where, f"{what}. They {effect}", sagas=sagas) for where, what, effect, _ in stops]


def _merged(found: Iterable[Change]) -> list[Change]:
    """Join groups of sagas that differ only in details."""
    merged = dict[Change, Change]()
    for change in sorted(found, key=lambda change: change.since):
        key = replace(change, count=0, since="", ids=())
        first = merged.get(key, replace(change, count=0))
        ids = tuple(dict.fromkeys((*first.ids, *change.ids)))[:_EXAMPLES]
        merged[key] = replace(first, count=first.count + change.count, ids=ids)
    return list(merged.values())


class _Group(Struct):
    """A group of the API's answer."""

    blueprint: str
    status: SagaStatus
    cursor: Annotated[int, Meta(ge=0)]
    steps: str
    count: Annotated[int, Meta(ge=1)]
    oldest: Annotated[datetime, Meta(tz=True)]
    examples: list[str] = field(default_factory=list[str])


class _Answer(Struct):
    """The API's answer about the sagas in flight of a type."""

    blueprints: Content
    groups: list[_Group]
    deployed: str | None = None


def read_in_flight(path: Path) -> Content:
    """Read a file that ``sagas check --save`` wrote."""
    content = read_json(path, "types", "file of sagas in flight", "sagas check --save")
    for name, answer in content["types"].items():
        if fault := _fault_of_answer(answer):
            raise InvalidRequest(f"{path} is not a file of sagas in flight", [Problem(f"$.types.{name}", fault)])
    return content


def _fault_of_answer(value: Any) -> str:
    """Return why a value is not the API's answer about sagas in flight; empty if it is one."""
    try:
        answer = convert(value, _Answer)
    except ValidationError as error:
        return str(error)
    for name, blueprint in answer.blueprints.items():
        if fault := fault_of(blueprint):
            return f"blueprint {name}: {fault}"
    for number, group in enumerate(answer.groups):
        if group.blueprint not in answer.blueprints:
            return f"groups[{number}]: it has no blueprint"
        steps = [step for step in answer.blueprints[group.blueprint]["steps"] if not step.get("retired")]
        matches = len(steps) == len(group.steps) and _STATUSES.keys() >= set(group.steps)
        if not matches or not steps or group.cursor > len(steps):
            return f"groups[{number}]: it does not match the steps of its blueprint"
    return ""
