"""Records: dataclasses, TypedDicts and pydantic models. Their JSON form is an object with a fixed set of fields."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast, get_args

from msgspec import Struct

from sagas.authoring.shapes.base import Path, Problems, SchemaDefinitions, Shape, json_type_of, too_deep
from sagas.authoring.shapes.comparing import check_equal, check_read_back, equal
from sagas.authoring.shapes.containers import Json, with_whole_numbers

_ABSENT: Any = object()


class RecordField(Struct, frozen=True):
    """A field of a record.

    Args:
        name: the field's name, in Python and in JSON.
        shape: the shape of the field's type.
        required: whether the JSON form must have the field.
        always: whether encoding a value always writes the field.
    """

    name: str
    shape: Shape
    required: bool
    always: bool


class Record(Shape):
    """A JSON object with a fixed set of fields.

    Args:
        type_: the class, or parametrized class, that identifies the schema.
        make: the function that builds a value from its fields.
        exact: the dataclass that values must have, not a subclass; None for a TypedDict, whose values are dicts.
    """

    json_types = frozenset({"object"})

    def __init__(self, type_: Any, name: str, make: Callable[..., Any], exact: type[Any] | None) -> None:
        self.type = type_
        self.name = name
        self.label = name
        self.hashable = exact is not None and exact.__hash__ is not None
        self.fields: dict[str, RecordField] = {}
        self.recursive = False
        self._make = make
        self._exact = exact
        self._makes_itself = exact is not None and makes_itself(exact)

    def complete(self, fields: list[RecordField]) -> None:
        """Set the fields. This is not in the constructor because a field can have the record's own type."""
        self.fields.update({field.name: field for field in fields})

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self._is_instance(value):
            return self.expected(at, problems, value)
        if too_deep(at, problems):
            return None
        before = len(problems)
        encoded: dict[str, Any] = {}
        at.append("")
        for name, field in self.fields.items():
            at[-1] = name
            item = value.get(name, _ABSENT) if self._exact is None else getattr(value, name, _ABSENT)
            if item is not _ABSENT:
                encoded[name] = field.shape.encode(item, at, problems)
            elif field.required:
                problems.add(at, "required field is missing")
        at.pop()
        if self._exact is None and len(encoded) < len(value):
            self._refuse_unknown(value, at, problems)
        if self._makes_itself and problems.reads_back and len(problems) == before:
            check_read_back(self, value, encoded, at, problems)
        return encoded

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        if not isinstance(data, dict):
            return problems.add(at, f"expected an object ({self.name})", type(data).__name__)
        if too_deep(at, problems):
            return None
        before = len(problems)
        members = cast("dict[Any, Any]", data)
        decoded: dict[str, Any] = {}
        at.append("")
        for name, field in self.fields.items():
            at[-1] = name
            if name in members:
                decoded[name] = field.shape.decode(members[name], at, problems)
            elif field.required:
                problems.add(at, "required field is missing")
        at.pop()
        if len(decoded) < len(members):
            self._refuse_unknown(members, at, problems)
        if len(problems) > before:
            return None
        try:
            return self._make(**decoded)
        except Exception as error:  # noqa: BLE001 -- a ``__post_init__`` can raise anything to refuse its fields
            # Report only the type: the text could quote the value.
            return problems.add(at, f"refused by {self.name} ({type(error).__name__})")

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        ref, new = definitions.reference(self.type, self.name)
        if new:
            schema: dict[str, Any] = {
                "type": "object",
                "properties": {field.name: field.shape.schema(definitions) for field in self.fields.values()},
                "required": [field.name for field in self.fields.values() if field.required],
                "additionalProperties": False,
            }
            definitions.define(self.type, schema)
        return ref

    def holds(self, value: Any) -> bool:
        if not self._is_instance(value):
            return False
        return self._exact is not None or self._has_kinds(value, _may_be)

    def accepts(self, data: Any) -> bool:
        """Whether the names of fields and the JSON types of their values fit this record."""
        return isinstance(data, dict) and self._has_kinds(cast("dict[Any, Any]", data), _may_be_form)

    def _has_kinds(self, members: dict[Any, Any], check: Callable[[Shape, Any], bool]) -> bool:
        complete = all(field.name in members for field in self.fields.values() if field.required)
        fields = self.fields
        return complete and all(name in fields and check(fields[name].shape, item) for name, item in members.items())

    def _refuse_unknown(self, data: Mapping[Any, Any], at: Path, problems: Problems) -> None:
        for name in data:
            if name not in self.fields:
                problems.add(at / str(name), "unknown field")

    def _is_instance(self, value: Any) -> bool:
        return isinstance(value, dict) if self._exact is None else type(value) is self._exact


def _may_be(shape: Shape, value: Any) -> bool:
    """Check quickly whether a value can have the shape."""
    kind = json_type_of(value)
    return kind is None or kind in shape.json_types


def _may_be_form(shape: Shape, data: Any) -> bool:
    """Check quickly whether ``data`` can be the JSON form of a value of the shape."""
    return _may_be(shape, data) if isinstance(data, dict | list) else shape.accepts(data)


def makes_itself(type_: type[Any]) -> bool:
    """Whether a dataclass does more than to keep the values of its fields, so that one that is read back may differ."""
    options = cast("Any", vars(type_).get("__dataclass_params__"))
    if options is None or not options.init or hasattr(type_, "__post_init__"):
        return True
    if type_.__new__ is not object.__new__ or not (options.frozen or type_.__setattr__ is object.__setattr__):
        return True
    fields = dataclasses.fields(cast("Any", type_))
    own = (cast("object", inspect.getattr_static(type_, field.name, None)) for field in fields)
    descriptors = [hasattr(type(item), "__set__") and not inspect.ismemberdescriptor(item) for item in own]
    return not all(field.init for field in fields) or any(descriptors)


_JSON = Json()
_DEFS = "#/$defs/"
_STARS = "**********"
"""pydantic writes every ``SecretStr`` like this."""


def is_model(type_: Any) -> bool:
    """Whether ``type_`` is a pydantic model, without importing pydantic."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(type_, type) and issubclass(type_, pydantic.BaseModel)


class _ByPydantic(Shape):
    """A type that pydantic reads and writes. Validation is strict."""

    type: Any
    name: str
    _extra: str | None = "forbid"

    def encode(self, value: Any, at: Path, problems: Problems) -> Any:
        if not self.holds(value):
            return self.expected(at, problems, value)
        if too_deep(at, problems):
            return None
        before = len(problems)
        try:
            dumped = self._dumped(value)
        except ValueError as error:  # PydanticSerializationError is a ValueError
            return problems.add(at, f"{self.name} cannot be written as JSON ({type(error).__name__})")
        data = _JSON.encode(dumped, at, problems)
        if len(problems) > before:
            return None
        # Aliases and serializers can write JSON that the model does not accept. Report this now, not in the next step.
        text = json.dumps(data)
        again, refusal = self._read(text)
        if refusal is not None:
            return self._unreadable(refusal, at, problems)
        if problems.reads_back and _STARS in text and not equal(value, again):
            return problems.add(
                at, f"{self.name} writes a secret as stars: annotate the field as Secret[str] from sagas"
            )
        if problems.reads_back:
            check_equal(value, again, self.name, at, problems)
        return data

    def decode(self, data: Any, at: Path, problems: Problems) -> Any:
        before = len(problems)
        plain = _JSON.decode(data, at, problems)
        if len(problems) > before:
            return None
        # In strict mode, pydantic refuses 1.0 as an integer, although the model's schema allows it.
        refusal = ValueError()
        for text in dict.fromkeys((json.dumps(plain), json.dumps(with_whole_numbers(plain)))):
            value, fault = self._read(text)
            if fault is None:
                return value
            refusal = fault
        return self._report(refusal, at, problems)

    def _dumped(self, value: Any) -> Any:
        """Return what pydantic writes for a value."""
        raise NotImplementedError

    def _validated(self, text: str) -> Any:
        """Return the value whose JSON is ``text``. Raises ``ValueError``."""
        raise NotImplementedError

    def _described(self) -> dict[str, Any]:
        """Return pydantic's own JSON Schema."""
        raise NotImplementedError

    def _unreadable(self, refusal: ValueError, at: Path, problems: Problems) -> None:
        """Report that a value's own JSON is refused."""
        self._report(refusal, at, problems)

    def _read(self, text: str) -> tuple[Any, ValueError | None]:
        try:
            return self._validated(text), None
        except ValueError as error:
            return None, error

    def _report(self, refusal: ValueError, at: Path, problems: Problems) -> None:
        details = getattr(refusal, "errors", None)
        if details is None:
            return problems.add(at, f"refused by {self.name} ({type(refusal).__name__})")
        for detail in details(include_input=False, include_context=False, include_url=False):
            place = at
            for part in detail["loc"]:
                place = place / part
            problems.add(place, _message(detail, self.name))
        return None

    def _own_schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        """Return pydantic's schema, with its definitions among the shared ones."""
        own = self._described()
        nested: dict[str, Any] = own.pop("$defs", {})
        recursive = str(own.get("$ref", "")).removeprefix(_DEFS)
        if recursive in nested:
            own = nested.pop(recursive)
            definitions.same((self.type, recursive), self.type)
        for name, schema in nested.items():
            definitions.reference((self.type, name), name)
            definitions.define((self.type, name), self._adapted(schema, definitions))
        return self._adapted(own, definitions)

    def _adapted(self, schema: Any, definitions: SchemaDefinitions) -> Any:
        """Point references to the shared definitions, and forbid unknown fields."""
        if isinstance(schema, list):
            return [self._adapted(item, definitions) for item in cast("list[Any]", schema)]
        if not isinstance(schema, dict):
            return schema
        adapted = {key: self._adapted(item, definitions) for key, item in cast("dict[str, Any]", schema).items()}
        for key, target in adapted.items():
            # a reference, or the mapping of a discriminator
            if isinstance(target, str) and target.startswith(_DEFS):
                name = target.removeprefix(_DEFS)
                adapted[key] = definitions.reference((self.type, name), name)[0]["$ref"]
        if self._extra == "forbid" and adapted.get("type") == "object" and "properties" in adapted:
            adapted.setdefault("additionalProperties", False)
        return adapted


class Model(_ByPydantic):
    """A pydantic model. Unknown fields are refused unless the model allows them.

    Args:
        type_: the model's class.
    """

    json_types = frozenset({"object"})

    def __init__(self, type_: Any) -> None:
        self.type = type_
        self.name = self.label = type_.__name__
        self.hashable = type_.__hash__ is not None
        self._extra = None if type_.model_config.get("extra") == "allow" else "forbid"

    @property
    def fields(self) -> dict[str, RecordField]:
        """The fields by their names in JSON. Only pydantic knows their types."""
        fields = self.type.model_fields.items()
        names = {info.serialization_alias or info.alias or name: info for name, info in fields}
        return {name: RecordField(name, _JSON, info.is_required(), always=True) for name, info in names.items()}

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        ref, new = definitions.reference(self.type, self.name)
        if new:
            definitions.define(self.type, self._own_schema(definitions))
        return ref

    def holds(self, value: Any) -> bool:
        return type(value) is self.type

    def _dumped(self, value: Any) -> Any:
        return value.model_dump(mode="json", by_alias=True, round_trip=True)

    def _validated(self, text: str) -> Any:
        return self.type.model_validate_json(text, strict=True, extra=self._extra)

    def _described(self) -> dict[str, Any]:
        return self.type.model_json_schema(mode="validation")

    def _unreadable(self, refusal: ValueError, at: Path, problems: Problems) -> None:
        problem = "cannot read the JSON it writes: make its aliases and serializers match its fields"
        problems.add(at, f"{self.name} {problem}")


class Annotated(_ByPydantic):
    """A scalar with pydantic's metadata in ``typing.Annotated``: constraints, validators, serializers.

    Args:
        type_: the annotated type.
        inner: the shape of the type without the metadata.
    """

    def __init__(self, type_: Any, inner: Shape) -> None:
        from pydantic import TypeAdapter

        self.type = type_
        self.name = self.label = inner.label
        self.hashable = inner.hashable
        self._inner = inner
        self._adapter: Any = TypeAdapter(type_)
        kinds = {self._adapter.json_schema(mode=mode).get("type") for mode in ("validation", "serialization")}
        kinds |= {"integer"} if "number" in kinds else set()
        # A validator or serializer of the author can take or give any JSON.
        self.json_types = frozenset(kind for kind in _JSON.json_types if kind in kinds or None in kinds)

    def schema(self, definitions: SchemaDefinitions) -> dict[str, Any]:
        return self._own_schema(definitions)

    def holds(self, value: Any) -> bool:
        return self._inner.holds(value)

    def _dumped(self, value: Any) -> Any:
        return self._adapter.dump_python(value, mode="json", round_trip=True)

    def _validated(self, text: str) -> Any:
        return self._adapter.validate_json(text, strict=True)

    def _described(self) -> dict[str, Any]:
        return self._adapter.json_schema(mode="validation")


_QUOTING = frozenset({"value_error", "assertion_error", "union_tag_invalid"})
"""Pydantic's errors whose text may quote the value, some of them from an exception of the author."""


def _message(detail: dict[str, Any], model: str) -> str:
    kind = str(detail["type"])
    if kind == "missing":
        return "required field is missing"
    if kind == "extra_forbidden":
        return "unknown field"
    error_types: tuple[str, ...] = get_args(sys.modules["pydantic_core.core_schema"].ErrorType)
    if kind in _QUOTING or kind not in error_types:
        return f"refused by {model} ({kind})"
    text = str(detail["msg"])
    # after the comma, the texts of these errors quote the value
    return text.split(",", 1)[0] if kind.endswith(("_parsing", "_invalid")) else text
