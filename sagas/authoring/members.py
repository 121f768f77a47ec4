"""Which steps and undos a class has: those of its bases first, and an override in the place of what it overrides."""

from __future__ import annotations

from typing import Any

from sagas.authoring.scope import Scope
from sagas.authoring.steps import Compensation, Step
from sagas.errors import DefinitionError

AnyStep = Step[..., Any]
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
        if name in self and self._clash(self[name], value):
            word = _word(_kind(value if _kind(self[name]) is object else self[name]))
            raise DefinitionError(f'{self._where}: {word} "{name}": the class body uses this name twice')
        super().__setitem__(name, value)

    def _clash(self, old: Any, new: Any) -> bool:
        decorated_later = getattr(new, "__wrapped__", None) is old  # f = step(f)
        return old is not new and not decorated_later and (_kind(old), _kind(new)) != (object, object)


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
    """Return the steps and undos of a class.

    Raises:
        DefinitionError: a member hides a step, a step has two undos, or an undo has no step.
    """
    kinds: dict[str, type[Any]] = {}
    undos: dict[str, AnyCompensation] = {}
    for base in reversed(cls.__mro__):
        _note_kinds(base, kinds, where)
        undos.update(_own_undos(base, where))
    steps = {name: _attribute(cls, name) for name, kind in kinds.items() if kind is Step}
    for step, undo in undos.items():
        if step not in steps:
            raise DefinitionError(f'{where}: compensation "{undo.name}": "{step}" is not a step of this class')
    return Members(steps, undos)


def _note_kinds(base: type[Any], kinds: dict[str, type[Any]], where: str) -> None:
    seen: dict[int, str] = {}
    for name, value in vars(base).items():
        kind = _kind(value)
        known = kinds.get(name, object)
        if known is not object and kind is not known:
            raise DefinitionError(f'{where}: {_word(known)} "{name}": {base.__name__} hides it by something else')
        if kind is object:
            continue
        if id(value) in seen:
            raise DefinitionError(f'{where}: {_word(kind)} "{name}": it is also called "{seen[id(value)]}"')
        seen[id(value)] = name
        kinds[name] = kind


def _kind(value: Any) -> type[Any]:
    if isinstance(value, Step):
        return Step
    return Compensation if isinstance(value, Compensation) else object


def _word(kind: type[Any]) -> str:
    return kind.__name__.lower()


def _own_undos(base: type[Any], where: str) -> dict[str, AnyCompensation]:
    undos: dict[str, AnyCompensation] = {}
    for value in vars(base).values():
        if not isinstance(value, Compensation):
            continue
        step = value.step.name
        if step in undos:
            raise DefinitionError(
                f'{where}: step "{step}": it has two compensations, "{undos[step].name}" and "{value.name}"'
            )
        undos[step] = value
    return undos


def _attribute(cls: type[Any], name: str) -> AnyStep:
    return next(vars(base)[name] for base in cls.__mro__ if name in vars(base))
