"""Which steps and undos a class has: those of its bases first, and an override in the place of what it overrides."""

from __future__ import annotations

import inspect
from functools import cached_property, partialmethod
from types import MethodType
from typing import Any, cast

from sagas.authoring.signatures.scope import Scope
from sagas.authoring.steps import MAKERS, Compensation, Decorator, Member, Step
from sagas.authoring.waits import Sleep, Wait
from sagas.errors import DefinitionError

AnyStep = Step[..., Any] | Wait[Any] | Sleep
AnyCompensation = Compensation[..., Any]


class ClassBody(dict[str, Any]):
    """The namespace of a class statement, in which a step is not silently replaced by a second of its name.

    Args:
        where: how messages call the class.
        scope: the names around the class statement.
    """

    def __init__(self, where: str, scope: Scope) -> None:
        super().__init__()
        self.scope = scope
        self._where = where

    def __setitem__(self, name: str, value: Any) -> None:
        old = self.get(name)
        decorated_later = getattr(value, "__wrapped__", None) is old  # f = step(f)
        kinds = {_kind(old), _kind(value)} - {object}
        if name in self and old is not value and not decorated_later and kinds:
            word = _word(_kind(value if _kind(old) is object else old))
            raise DefinitionError(f'{self._where}: {word} "{name}": the class body uses this name twice')
        super().__setitem__(name, value)


class Members:
    """The steps of a class, in order, and their undos by step.

    Args:
        steps: by name.
        undos: by the name of the step undone.
    """

    def __init__(self, steps: dict[str, AnyStep], undos: dict[str, AnyCompensation]) -> None:
        self.steps = steps
        self.undos = undos


def collect(cls: type[Any], where: str) -> Members:
    """Return the steps and undos of a class."""
    members: dict[str, Any] = {}
    undos: dict[str, AnyCompensation] = {}
    for base in reversed(cls.__mro__):
        names: dict[int, str] = {}
        own_undos: dict[str, AnyCompensation] = {}
        for name, value in vars(base).items():
            kind, known = _kind(value), _kind(members.get(name))
            if known is not object and kind is not known:
                raise DefinitionError(f'{where}: {_word(known)} "{name}": {base.__name__} hides it by something else')
            if kind is object:
                _check_made(value, f'{where}: "{name}"')
                continue
            if id(value) in names:
                raise DefinitionError(f'{where}: {_word(kind)} "{name}": it is also called "{names[id(value)]}"')
            names[id(value)] = name
            members[name] = value
            if isinstance(value, Compensation):
                undone = value.step.name
                if undone in own_undos:
                    pair = f'"{own_undos[undone].name}" and "{value.name}"'
                    raise DefinitionError(f'{where}: step "{undone}": it has two compensations, {pair}')
                own_undos[undone] = value
        undos.update(own_undos)
    steps: dict[str, AnyStep] = {
        name: value for name, value in members.items() if isinstance(value, Step | Wait | Sleep)
    }
    for undone, undo in undos.items():
        if undone not in steps:
            raise DefinitionError(f'{where}: compensation "{undo.name}": "{undone}" is not a step of this class')
    return Members(steps, undos)


def _check_made(value: object, where: str) -> None:
    """Check that what is no member hides none and would have made none: it would read like a step, and do nothing."""
    if isinstance(value, Decorator) and not value.used:
        raise DefinitionError(f"{where}: {value.call}(...) decorates a method, and there is none under it")
    itself: object = value.__func__ if isinstance(value, MethodType) else value
    if any(itself is maker for maker in MAKERS):
        name = getattr(itself, "__name__", "")
        raise DefinitionError(f"{where}: it is the function {name} itself, which declares nothing until it is called")
    hidden = _within(value)
    if hidden is not None and hidden.owner is None:  # else it is a step all the same, of this class or another
        word = _word(_kind(hidden))
        raise DefinitionError(f"{where}: a decorator above it hides the {word} from the saga; put that one below")


def _within(value: object) -> Member | None:
    """Return the member that a decorator was put around; None if there is none in it."""
    while value is not None and not isinstance(value, Member):
        match value:
            case property():
                value = value.fget
            case staticmethod() | classmethod():
                value = cast("object", value.__func__)
            case cached_property() | partialmethod():
                value = cast("object", value.func)
            case _:
                value = inspect.getattr_static(value, "__wrapped__", None)
    return value


def _kind(value: Any) -> type[Any]:
    if isinstance(value, Step | Wait | Sleep):
        return Step
    return Compensation if isinstance(value, Compensation) else object


def _word(kind: type[Any]) -> str:
    return kind.__name__.lower()
