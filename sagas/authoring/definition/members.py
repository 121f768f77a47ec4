"""Finds the steps and undos of a class, those of its bases first. An override takes the place of the original."""

from __future__ import annotations

import inspect
import re
from functools import cached_property, partialmethod
from types import MethodType
from typing import Any, cast

from sagas.authoring.signatures import NameScope
from sagas.authoring.steps import MADE, MAKERS, Compensation, Decorator, Member, Step
from sagas.authoring.waits import Sleep, Wait
from sagas.errors import DefinitionError

AnyStep = Step[..., Any] | Wait[Any] | Sleep
AnyCompensation = Compensation[..., Any]

HOOK = "around"
"""The method of ``Saga`` that runs around each attempt. It is not a step, so a step may have this stored name."""


class ClassBody(dict[str, Any]):
    """The namespace of a class statement. It refuses a second member with the same name as a step.

    Args:
        where: the class, for error messages.
        scope: the names that are visible to the class statement.
    """

    def __init__(self, where: str, scope: NameScope) -> None:
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
    """The steps of a class, in order, and their undos.

    Args:
        steps: the steps, by stored name.
        undos: the undos, by the stored name of the step that they undo.
        methods: the name that each step has in the class, by stored name.
    """

    def __init__(self, steps: dict[str, AnyStep], undos: dict[str, AnyCompensation], methods: dict[str, str]) -> None:
        self.steps = steps
        self.undos = undos
        self.methods = methods


def collect(cls: type[Any], where: str) -> Members:
    """Return the steps and undos of a class."""
    members: dict[str, Any] = {}
    undos: dict[str, AnyCompensation] = {}
    for base in reversed(cls.__mro__):
        names: dict[int, str] = {}
        own_undos: dict[str, AnyCompensation] = {}
        for name, value in vars(base).items():
            kind = _kind(value)
            base_kind = _kind(members.get(name))
            if base_kind is not object and kind is not base_kind:
                raise DefinitionError(
                    f'{where}: {_word(base_kind)} "{name}": {base.__name__} replaces it with something else'
                )
            if kind is object:
                _check_other(value, f'{where}: "{name}"')
                continue
            if id(value) in names:
                raise DefinitionError(f'{where}: {_word(kind)} "{name}": it has a second name, "{names[id(value)]}"')
            names[id(value)] = name
            members[name] = value
            if isinstance(value, Compensation):
                step_name = value.step.name
                if step_name in own_undos:
                    pair = f'"{own_undos[step_name].name}" and "{value.name}"'
                    raise DefinitionError(f'{where}: step "{step_name}": it has two compensations, {pair}')
                own_undos[step_name] = value
        undos.update(own_undos)
    _check_made(cls, where)
    by_method: dict[str, AnyStep] = {
        name: value for name, value in members.items() if isinstance(value, Step | Wait | Sleep)
    }
    for step_name, undo in undos.items():
        if step_name not in by_method:
            raise DefinitionError(f'{where}: compensation "{undo.name}": "{step_name}" is not a step of this class')
    return _by_stored_name(cls, by_method, undos, where)


def _by_stored_name(
    cls: type[Any], by_method: dict[str, AnyStep], undos: dict[str, AnyCompensation], where: str
) -> Members:
    """Return the steps and undos under their stored names."""
    methods: dict[str, str] = {}
    for method, step in by_method.items():
        name = step.options.name
        if name is None:
            name = method
        elif not isinstance(cast("object", name), str) or not re.fullmatch("[a-z][a-z0-9_]{0,39}", name):
            expected = "1 to 40 characters of a-z, 0-9 and '_', starting with a letter"
            raise DefinitionError(f'{where}: step "{method}": name must be {expected}, not {name!r}')
        elif name not in (method, HOOK) and any(name in vars(base) for base in cls.__mro__):
            raise DefinitionError(f'{where}: step "{method}" has the name of another member of the class: "{name}"')
        other = methods.setdefault(name, method)
        if other != method:
            raise DefinitionError(f'{where}: steps "{other}" and "{method}" have the same name: "{name}"')
    stored = {method: name for name, method in methods.items()}
    steps = {stored[method]: step for method, step in by_method.items()}
    return Members(steps, {stored[method]: undo for method, undo in undos.items()}, methods)


def _check_made(cls: type[Any], where: str) -> None:
    """Refuse members that have no name in their class, and decorators that decorate nothing. Nothing would run them."""
    for made in (made for base in reversed(cls.__mro__) for made in vars(base).get(MADE, ())):
        if made.used or (isinstance(made, Member) and made.owner is not None):
            continue
        if isinstance(made, Decorator):
            raise DefinitionError(f"{where}: {made.call}(...) must decorate a method, but none follows")
        if not made.name:
            raise DefinitionError(f"{where}: a {type(made).__name__.lower()} has no name; assign it: NAME = ...")
        raise DefinitionError(f'{where}: "{made.name}": {_hides(made)}')


def _hides(member: Member) -> str:
    return f"a decorator above it hides the {_word(_kind(member))} from the saga; put the other decorator below"


def _check_other(value: object, where: str) -> None:
    """Refuse a value that looks like a step but is not one, or that hides a step."""
    if isinstance(value, Decorator) and not value.used:
        raise DefinitionError(f"{where}: {value.call}(...) must decorate a method, but none follows")
    itself: object = value.__func__ if isinstance(value, MethodType) else value
    if any(itself is maker for maker in MAKERS):
        name = getattr(itself, "__name__", "")
        raise DefinitionError(f"{where}: '{name}' is missing its parentheses: write {name}(...)")
    hidden = _within(value)
    if hidden is not None and hidden.owner is None:  # a member with an owner is a step anyway, of this class or another
        raise DefinitionError(f"{where}: {_hides(hidden)}")


def _within(value: object) -> Member | None:
    """Return the member that a decorator wraps; None if it does not wrap a member."""
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
