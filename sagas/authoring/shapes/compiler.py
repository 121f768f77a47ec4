"""Compiles a type to its shape."""

from __future__ import annotations

import collections.abc
import copy
import dataclasses
import typing
from collections.abc import Callable, Mapping
from enum import Enum
from importlib.util import find_spec
from typing import Any, cast, get_args, get_origin

from sagas.authoring.shapes import containers
from sagas.authoring.shapes.base import Shape, UnsupportedType
from sagas.authoring.shapes.containers import Array, FixedArray, Json
from sagas.authoring.shapes.records import Annotated, Model, Record, RecordField, is_model
from sagas.authoring.shapes.scalars import (
    SCALARS,
    Boolean,
    Choice,
    Float,
    Formatted,
    Integer,
    String,
    enum_choice,
    literal_choice,
)
from sagas.authoring.shapes.unions import Union, first_ambiguity
from sagas.authoring.signatures import bare, bindings, is_secret, is_union, metadata_of, substitute

Namespace = Mapping[str, Any]

_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence, collections.abc.Collection)
_SETS = (set, collections.abc.Set, collections.abc.MutableSet)
_DICTS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_JSON_SCALARS = (str, int, float, bool, type(None), Any, object)

_SHOWN_KEYS = "the keys of a dict are shown; make the whole dict a Secret, or use a list"

_compiled: dict[Any, Shape] = {}


def shape_of(type_: Any, names: Namespace | None = None) -> Shape:
    """Return the shape of a type. Each type is compiled once."""
    try:
        cached = _compiled.get(type_)
    except TypeError:  # part of the type is not hashable
        cached = None
    if cached is not None:
        return cached
    compiler = _Compiler(names or {})
    shape = compiler.compile(type_)
    compiler.check_unions()
    _compiled.update(compiler.done)  # not earlier: a failed compilation must not leave incomplete shapes
    return shape


def type_name(type_: Any) -> str:
    """Return a type's name for messages."""
    return type_.__name__ if isinstance(type_, type) and not get_args(type_) else str(type_).replace("typing.", "")


class _Compiler:
    """One compilation. Records are registered before their fields are compiled, so types can be recursive."""

    def __init__(self, names: Namespace) -> None:
        self.names = names
        self.done: dict[Any, Shape] = {}
        self._unions: list[Union] = []

    def compile(self, type_: Any) -> Shape:
        """Return the shape of a type."""
        rules = [item for item in metadata_of(type_) if _is_rule(item)]
        if rules or is_secret(type_):
            plain = self.compile(bare(type_, keep=_is_json_alias))
            shape = self._with_rules(type_, plain, rules) if rules else copy.copy(plain)
            shape.secret = is_secret(type_)
            return shape
        type_ = bare(type_, keep=_is_json_alias)
        try:
            cached = self.done.get(type_) or _compiled.get(type_)
        except TypeError:  # part of the type is not hashable
            return self._make(type_)
        if cached is None:
            cached = self.done[type_] = self._make(type_)
        return cached

    def _make(self, type_: Any) -> Shape:
        return self._scalar(type_) or self._container(type_) or self._class(type_)

    def _with_rules(self, type_: Any, plain: Shape, rules: list[Any]) -> Shape:
        """Return the shape of a type to which ``Annotated`` adds rules for its values. Only pydantic follows them."""
        names = ", ".join(type_name(item if isinstance(item, type) else type(item)) for item in rules)
        if not all(map(_is_for_pydantic, rules)) or find_spec("pydantic") is None:
            raise UnsupportedType(f"{names} in Annotated would be ignored; use pydantic's, with pydantic installed")
        if not isinstance(plain, _RULED):
            raise UnsupportedType(
                f"{names} in Annotated would be ignored for {type_name(bare(type_))}; use a pydantic model"
            )
        try:
            return Annotated(typing.Annotated[(bare(type_), *rules)], plain)
        except (TypeError, ValueError, RuntimeError) as error:  # pydantic's own errors are RuntimeErrors
            fault = str(error).splitlines()[0]
            raise UnsupportedType(f"pydantic cannot use {names} for {type_name(bare(type_))}: {fault}") from None

    def check_unions(self) -> None:
        """Refuse unions with members that cannot be distinguished in JSON."""
        for union in self._unions:
            pair = first_ambiguity(union.members)
            if pair is not None:
                earlier, later = (member.label for member in pair)
                raise UnsupportedType(
                    f"the members {earlier!r} and {later!r} of a union cannot be distinguished in JSON; "
                    "put the more specific member first, or give each a Literal field with its name"
                )

    def _item(self, arguments: tuple[Any, ...], index: int) -> Shape:
        return self.compile(arguments[index]) if arguments else Json()

    def _scalar(self, type_: Any) -> Shape | None:
        """Return the shape of a scalar, literal, union or free JSON; None for other types."""
        if type_ is Any or type_ is object or _is_json_alias(type_):
            return Json()
        if get_origin(type_) is typing.Literal:
            return literal_choice(get_args(type_))
        if is_union(type_):
            members = [self.compile(member) for member in get_args(type_)]
            members.sort(key=lambda member: isinstance(member, Float))  # stable sort: 1 is decoded as an int
            union = Union(members)
            self._unions.append(union)
            return union
        return SCALARS.get(type_) if isinstance(type_, type) else None

    def _container(self, type_: Any) -> Shape | None:
        """Return the shape of a list, tuple, set or dict, or of their abstract types; None for other types."""
        origin = get_origin(type_) or type_
        arguments = get_args(type_)
        if origin is tuple:
            if get_origin(type_) is None or arguments[1:] == (...,):
                return Array(self._item(arguments, 0), tuple, (tuple,))
            shape = FixedArray([self.compile(argument) for argument in arguments], tuple, len(arguments))
            shape.hashable = all(item.hashable for item in shape.items)
            return shape
        if origin in _LISTS:
            return Array(self._item(arguments, 0), list, (list,) if origin is list else (list, tuple))
        if origin in _SETS or origin is frozenset:
            item = self._item(arguments, 0)
            if not item.hashable:
                raise UnsupportedType(f"{type_name(type_)}: items must be hashable")
            return Array(item, frozenset if origin is frozenset else set, (set, frozenset))
        if origin in _DICTS:
            key = self.compile(arguments[0]) if arguments else SCALARS[str]
            if not (isinstance(key, Integer | Float) or key.json_types <= {"string"}):
                raise UnsupportedType(f"{type_name(type_)}: its keys cannot be keys of a JSON object")
            if key.secret:
                raise UnsupportedType(f"{type_name(type_)}: {_SHOWN_KEYS}")
            return containers.Mapping(key, self._item(arguments, 1))
        return None

    def _class(self, type_: Any) -> Shape:
        """Return the shape of a class that the author wrote."""
        origin: Any = get_origin(type_) or type_
        if is_model(type_):
            if _has_secret_keys(type_, set()):
                raise UnsupportedType(f"{type_name(type_)}: {_SHOWN_KEYS}")
            return Model(type_)
        if _is_class(origin, Enum):
            return enum_choice(origin)
        if _is_class(origin, object) and hasattr(origin, "__dataclass_fields__"):
            return self._dataclass(type_, origin)
        if _is_class(origin, dict) and hasattr(origin, "__required_keys__"):
            return self._typed_dict(type_, origin)
        if _is_class(origin, tuple) and hasattr(origin, "_field_defaults"):
            return self._named_tuple(type_, origin)
        if isinstance(type_, typing.ForwardRef):
            raise UnsupportedType(f"{type_.__forward_arg__!r} is an alias that refers to itself; use a dataclass")
        if isinstance(type_, str):
            raise UnsupportedType(f"{type_!r} is a text in the place of a type; write it without quotation marks")
        advice = "use a dataclass, TypedDict, NamedTuple or enum, or a type made of them"
        raise UnsupportedType(f"{type_name(type_)} has no JSON form; {advice}")

    def _dataclass(self, type_: Any, origin: Any) -> Shape:
        hints = self._hints(type_, origin)
        if any(isinstance(hint, dataclasses.InitVar) or hint is dataclasses.InitVar for hint in hints.values()):
            raise UnsupportedType(f"{origin.__name__} has an InitVar, which cannot be read back")
        record = self.done[type_] = Record(type_, _schema_name(type_), origin, origin)
        missing = dataclasses.MISSING
        record.complete(
            [
                RecordField(f.name, self.compile(hints[f.name]), f.default is f.default_factory is missing, True)
                for f in dataclasses.fields(origin)
                if f.init
            ]
        )
        return record

    def _typed_dict(self, type_: Any, origin: Any) -> Shape:
        record = self.done[type_] = Record(type_, _schema_name(type_), dict, None)
        fields = list[RecordField]()
        for name, hint in self._hints(type_, origin).items():
            marks = {get_origin(hint), get_origin(get_args(hint)[0]) if get_args(hint) else None}
            # __required_keys__ does not reflect these marks if annotations are postponed
            required = name in origin.__required_keys__ or typing.Required in marks
            required = required and typing.NotRequired not in marks
            fields.append(RecordField(name, self.compile(hint), required, required))
        record.complete(fields)
        return record

    def _named_tuple(self, type_: Any, origin: Any) -> Shape:
        hints = self._hints(type_, origin)
        names: tuple[str, ...] = origin._fields
        if not set(names) <= hints.keys():
            raise UnsupportedType(f"{origin.__name__} has fields without a type; use typing.NamedTuple")
        shape = self.done[type_] = FixedArray([], origin, len(names) - len(origin._field_defaults))
        shape.items.extend(self.compile(hints[name]) for name in names)
        shape.hashable = all(item.hashable for item in shape.items)
        return shape

    def _hints(self, type_: Any, origin: Any) -> dict[str, Any]:
        """Return the types of a class's fields, with type variables replaced."""
        read = cast("Callable[..., dict[str, Any]]", typing.get_type_hints)
        try:
            hints = read(origin, include_extras=True)
        except NameError:
            try:
                hints = read(origin, localns=dict(self.names), include_extras=True)
            except NameError as error:
                raise UnsupportedType(
                    f"an annotation in {origin.__name__} uses {error.name!r}, which is not defined: it is imported "
                    "under TYPE_CHECKING only, or local to a function"
                ) from None
        bound = bindings(type_)
        return {name: substitute(hint, bound) for name, hint in hints.items()}


def _has_secret_keys(type_: Any, seen: set[Any]) -> bool:
    """Whether a dict inside a type of pydantic has secret keys."""
    if is_model(type_):
        fields = () if type_ in seen else type_.model_fields.values()
        seen.add(type_)
        return any(_has_secret_keys(field.annotation, seen) for field in fields)
    arguments = get_args(type_)
    if _is_class(get_origin(type_), collections.abc.Mapping) and arguments and is_secret(arguments[0]):
        return True
    return any(_has_secret_keys(argument, seen) for argument in arguments)


_RULED = (Formatted, Integer, Float, String, Boolean, Choice)
"""Shapes of types whose values pydantic can check and write. The others may contain redacted values."""


def _is_rule(item: Any) -> bool:
    """Whether an item of ``Annotated`` says which values are valid, or how they are written. Others only describe."""
    return _is_for_pydantic(item) or _package_of(item) == "msgspec"


def _is_for_pydantic(item: Any) -> bool:
    return _package_of(item) in ("pydantic", "annotated_types") or hasattr(item, "__get_pydantic_core_schema__")


def _package_of(item: Any) -> str:
    return type(item).__module__.partition(".")[0]


def _is_class(type_: Any, base: type[Any]) -> bool:
    return isinstance(type_, type) and issubclass(type_, base)


def _is_json_alias(type_: Any) -> bool:
    """Whether a type is a recursive alias of JSON: ``dict[str, "Json"] | list["Json"] | str | ...``."""
    alias = type_ if hasattr(type_, "__value__") and not isinstance(type_, type) else None
    body = type_ if alias is None else alias.__value__
    return is_union(body) and _mentions(body, alias) and _is_json(body, alias)


def _is_self(type_: Any, alias: Any) -> bool:
    # In resolved annotations, a ForwardRef is an alias that refers to itself.
    return isinstance(type_, typing.ForwardRef | str) or (alias is not None and type_ is alias)


def _mentions(type_: Any, alias: Any) -> bool:
    return _is_self(type_, alias) or any(_mentions(argument, alias) for argument in get_args(type_))


def _is_json(type_: Any, alias: Any) -> bool:
    if _is_self(type_, alias) or type_ in _JSON_SCALARS:
        return True
    inside = all(_is_json(argument, alias) for argument in get_args(type_))
    return inside and (is_union(type_) or get_origin(type_) in (*_LISTS, *_DICTS))


def _schema_name(type_: Any) -> str:
    origin = get_origin(type_) or type_
    parts = [origin.__name__, *(type_name(argument) for argument in get_args(type_))]
    return "_".join("".join(c if c.isalnum() else "_" for c in part) for part in parts)
