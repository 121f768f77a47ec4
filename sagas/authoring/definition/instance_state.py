"""Detects state that one step stores on ``self`` for another step. Such state is lost: executions share no instance.

If the source of the methods makes this certain, the class is refused. Otherwise, for example if a helper or decorator
sets the attribute, a note on the resulting ``AttributeError`` explains the mistake.
"""

from __future__ import annotations

import ast
import dis
import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partialmethod
from types import CodeType, FunctionType
from typing import Any, cast

from msgspec import Struct

from sagas.authoring.definition.definition import SagaDefinition, StepDefinition
from sagas.errors import DefinitionError

_STORE = dis.opmap["STORE_ATTR"]
_HOOKS = ("__new__", "__getattr__", "__getattribute__", "__setattr__")
"""Methods that can set attributes in ways that the source does not show."""
_UNCLEAR = frozenset({"super", "suppress", "AttributeError", "Exception", "BaseException"})
"""Names that occur in code that runs other code, or that tolerates a missing attribute."""


def check_instance_state(cls: type[Any], where: str, steps: Iterable[StepDefinition]) -> None:
    """Check that no step or undo reads a ``self`` attribute that only another step or undo sets."""
    functions = dict(_functions(steps))
    codes = [function.__code__ for function in functions.values() if isinstance(function, FunctionType)]
    if not any(_STORE in code.co_code[::2] for code in codes):
        return  # nearly all classes end here, so their source is not read
    sources = {label: source for label, function in functions.items() if (source := _Source.of(function))}
    setters: dict[str, list[str]] = {}
    for label, source in sources.items():
        for name in source.sets:
            setters.setdefault(name, []).append(label)
    surroundings = _Surroundings(cls, functions.values())
    only = {name for name in setters if not surroundings.may_set(name)}
    changing = setters.keys() - only
    for label, source in sources.items():
        for name in sorted(source.reads & only - source.sets):
            if source.fails_without(name) and not source.reads & (changing | surroundings.methods.keys()):
                raise DefinitionError(_message(where, label, name, setters[name]))


def note_on_instance_state(definition: SagaDefinition, reader: str, name: str) -> str:
    """Return a note about an attribute that a step or undo did not find on its instance; empty if no code sets it."""
    functions = dict(_functions(definition.steps))
    label = next((label for label in functions if label.endswith(f' "{reader}"')), reader)
    for method, function in _Surroundings(definition.saga_class, functions.values()).helpers():
        functions[f'method "{method}"'] = function
    setters = [setter for setter, function in functions.items() if _sets(inspect.unwrap(function), name)]
    where = f'{definition.saga_class.__name__} (saga "{definition.name}")'
    return _message(where, label, name, setters) if setters else ""


def _message(where: str, reader: str, name: str, setters: list[str]) -> str:
    advice = "executions do not share an instance; return the value as a result and take it as a parameter"
    return f"{where}: {reader} reads self.{name}, which is set only by {' and '.join(setters)}; {advice}"


def _functions(steps: Iterable[StepDefinition]) -> Iterator[tuple[str, Callable[..., Any]]]:
    for step in steps:
        if step.asks:
            yield f'step "{step.name}"', step.function
        if step.undo is not None:
            yield f'compensation "{step.undo.name}"', step.undo.function


def _sets(function: object, name: str) -> bool:
    instructions = dis.get_instructions(function) if isinstance(function, FunctionType) else ()
    return any(instruction.opname == "STORE_ATTR" and instruction.argval == name for instruction in instructions)


def _words(code: CodeType) -> set[str]:
    """The names and strings in a code object. They include each attribute's name, however the attribute is set."""
    words = {*code.co_names, *(const for const in code.co_consts if isinstance(const, str))}
    return words.union(*(_words(const) for const in code.co_consts if isinstance(const, CodeType)))


class _Source(Struct, frozen=True):
    """How the source of a method uses its instance.

    Args:
        sets: attributes that the method sets or deletes.
        reads: attributes that the method reads.
        conditions: attributes that its conditions depend on.
        words: names and strings in the method's source.
        keeps: whether the method uses its instance only for attributes, and catches no exceptions.
    """

    sets: frozenset[str]
    reads: frozenset[str]
    conditions: frozenset[str]
    words: frozenset[str]
    keeps: bool

    @classmethod
    def of(cls, function: object) -> _Source | None:
        """Read a function; ``None`` if its source does not show how it uses the instance."""
        method = _method(function)
        if method is None:
            return None
        instance, nodes = method
        uses = [item for item in nodes if isinstance(item, ast.Name) and item.id == instance]
        if not all(isinstance(item.ctx, ast.Load) for item in uses):
            return None
        attributes = _attributes(nodes, instance)
        deciding = [part for item in nodes for condition in _conditions(item) for part in ast.walk(condition)]
        caught = any(isinstance(item, ast.Try | ast.TryStar) for item in nodes)
        return cls(
            sets=frozenset(item.attr for item in attributes if not isinstance(item.ctx, ast.Load)),
            reads=frozenset(item.attr for item in attributes if isinstance(item.ctx, ast.Load)),
            conditions=frozenset(item.attr for item in _attributes(deciding, instance)),
            words=frozenset(_words_in(nodes)),
            keeps=len(uses) == len(attributes) and not caught,
        )

    def fails_without(self, name: str) -> bool:
        """Whether the method fails if an attribute is missing, and it calls no other method that sets the attribute."""
        return self.keeps and self.conditions <= {name} and not self.words & (_UNCLEAR | {name})


class _Surroundings:
    """The code of a class besides its steps and undos.

    Args:
        cls: the class.
        steps: the functions of the steps and undos.
    """

    def __init__(self, cls: type[Any], steps: Iterable[Callable[..., Any]]) -> None:
        self._bases = [
            base for base in cls.__mro__ if base.__module__ not in ("builtins", "typing", "sagas.authoring.saga")
        ]
        self._steps = [inspect.unwrap(step) for step in steps]

    @cached_property
    def methods(self) -> dict[str, list[FunctionType]]:
        """The functions in the bodies of the class and its bases, by name. A property consists of several functions."""
        members = [member for base in reversed(self._bases) for member in vars(base).items()]
        return {name: functions for name, value in members if (functions := list(_inside(value)))}

    def helpers(self) -> Iterator[tuple[str, FunctionType]]:
        """The functions that are neither steps nor undos."""
        for name, functions in self.methods.items():
            yield from ((name, function) for function in functions if function not in self._steps)

    def may_set(self, name: str) -> bool:
        """Whether code other than the steps and undos can set an attribute."""
        for base in self._bases:
            if name in vars(base) or _annotates(base, name) or any(hook in vars(base) for hook in _HOOKS):
                return True
        return not self._created_plainly or any(name in _words(helper.__code__) for _, helper in self.helpers())

    @cached_property
    def _created_plainly(self) -> bool:
        """Whether the methods of the class are the only code that sees an instance while it is created."""
        for base in self._bases:
            for name in ("__init__", "__post_init__"):
                source = _Source.of(vars(base)[name]) if name in vars(base) else None
                if name in vars(base) and (source is None or not source.keeps or source.reads & self.methods.keys()):
                    return False
            if "create" in vars(base) and not _calls_its_class(vars(base)["create"]):
                return False
        return True


def _calls_its_class(create: Any) -> bool:
    """Whether a ``create()`` only calls its class and returns the result."""
    node = _node(getattr(create, "__func__", None))
    if node is None or len(node.args.args) != 1:
        return False
    own, nodes = node.args.args[0].arg, [item for statement in node.body for item in ast.walk(statement)]
    returned = [item.value for item in nodes if isinstance(item, ast.Return)]
    called = [item.func for item in returned if isinstance(item, ast.Call)]
    uses = [item for item in nodes if isinstance(item, ast.Name) and item.id in (own, "super")]
    return bool(uses) and len(uses) == len(returned) and all(item in called for item in uses)


def _node(function: object) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Parse a function; ``None`` if the source is missing, or if another function wraps this one."""
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        return None
    try:
        text = inspect.getsource(function)
        # A method's lines are indented, so they are parsed inside a class.
        node = ast.parse(f"class _:\n{text}" if text[:1].isspace() else text).body[0]
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    node = node.body[0] if isinstance(node, ast.ClassDef) else node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != function.__name__:
        return None
    # If the file was changed after it was loaded, its code does not match.
    used = {item.attr for statement in node.body for item in ast.walk(statement) if isinstance(item, ast.Attribute)}
    return node if used <= _words(function.__code__) else None


def _method(function: object) -> tuple[str, list[ast.AST]] | None:
    """The name of the instance in a method, and the nodes of the method's code. ``None`` if the source is missing, or
    if a nested function has a parameter with this name."""
    node = _node(function)
    parameters = [] if node is None else [child.arg for child in ast.walk(node) if isinstance(child, ast.arg)]
    if node is None or not parameters or parameters.count(parameters[0]) > 1:
        return None
    return parameters[0], [each for statement in node.body for each in ast.walk(statement)]


def _words_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names and texts."""
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _attributes(nodes: Iterable[ast.AST], instance: str) -> list[ast.Attribute]:
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    return [node for node in attributes if isinstance(node.value, ast.Name) and node.value.id == instance]


def _conditions(node: ast.AST) -> Iterable[ast.AST]:
    match node:
        case ast.If() | ast.IfExp() | ast.While() | ast.Assert():
            return [node.test]
        case ast.For() | ast.AsyncFor():
            return [node.iter]
        case ast.comprehension():
            return [node.iter, *node.ifs]
        case ast.BoolOp():
            return node.values
        case ast.Match():
            return [node.subject]
        case _:
            return []


def _inside(member: Any) -> Iterator[FunctionType]:
    """The functions in a member of a class body."""
    functions: list[Any] = [member]
    match member:
        case property():
            functions = [member.fget, member.fset, member.fdel]
        case staticmethod() | classmethod():
            functions = [cast("Any", member).__func__]
        case cached_property() | partialmethod():
            functions = [cast("Any", member).func]
        case _:
            pass
    for function in functions:
        inner = inspect.unwrap(function) if callable(function) else None
        if isinstance(inner, FunctionType):
            yield inner


def _annotates(base: type[Any], name: str) -> bool:
    """Whether a class body annotates a name. If so, a decorator of the class may turn the name into a field."""
    try:
        return name in inspect.get_annotations(base)
    except NameError:  # from Python 3.14 on, annotations are lazy and can use names that are not imported
        return True
