"""State that one step keeps on ``self`` for another, which does not find it: no two executions share an instance.

A class is refused where that is certain by the source of its methods. What their source does not show, such as what a
helper or a decorator does, is named in a note of the ``AttributeError`` that it leads to.
"""

from __future__ import annotations

import ast
import dis
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partialmethod
from types import CodeType, FunctionType
from typing import Any, cast

from sagas.authoring.definition.definition import SagaDefinition, StepDefinition
from sagas.errors import DefinitionError

_STORE = dis.opmap["STORE_ATTR"]
_HOOKS = ("__new__", "__getattr__", "__getattribute__", "__setattr__")
"""Methods by which an instance may have attributes that nothing else shows."""
_UNCLEAR = frozenset({"super", "suppress", "AttributeError", "Exception", "BaseException"})
"""Names of what runs other code, or has a missing attribute do no harm."""


def check_instance_state(cls: type[Any], where: str, steps: Iterable[StepDefinition]) -> None:
    """Check that no step or undo reads from its instance what only another one sets."""
    functions = dict(_functions(steps))
    if not any(_stores(function) for function in functions.values()):
        return  # nearly all classes, without a look at their source
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
    """Return what to say of an attribute that a step or undo did not find on its instance; empty if no code sets it."""
    functions = dict(_functions(definition.steps))
    label = next((label for label in functions if label.endswith(f' "{reader}"')), reader)
    for method, function in _Surroundings(definition.saga_class, functions.values()).helpers():
        functions[f'method "{method}"'] = function
    setters = [setter for setter, function in functions.items() if _sets(inspect.unwrap(function), name)]
    where = f'{definition.saga_class.__name__} (saga "{definition.name}")'
    return _message(where, label, name, setters) if setters else ""


def _message(where: str, reader: str, name: str, setters: list[str]) -> str:
    advice = "no two executions share an instance; return it as a result, and take it as a parameter"
    return f"{where}: {reader} reads self.{name}, which is set only by {' and '.join(setters)}; {advice}"


def _functions(steps: Iterable[StepDefinition]) -> Iterator[tuple[str, Callable[..., Any]]]:
    for step in steps:
        if step.asks:
            yield f'step "{step.name}"', step.function
        if step.undo is not None:
            yield f'compensation "{step.undo.name}"', step.undo.function


def _stores(function: object) -> bool:
    return isinstance(function, FunctionType) and _STORE in function.__code__.co_code[::2]


def _sets(function: object, name: str) -> bool:
    instructions = dis.get_instructions(function) if isinstance(function, FunctionType) else ()
    return any(one.opname == "STORE_ATTR" and one.argval == name for one in instructions)


def _words(code: CodeType) -> set[str]:
    """The names and texts in a code object: that of an attribute is among them, however it is set."""
    words = {*code.co_names, *(one for one in code.co_consts if isinstance(one, str))}
    return words.union(*(_words(one) for one in code.co_consts if isinstance(one, CodeType)))


@dataclass(frozen=True, slots=True)
class _Source:
    """What the source of a method does with its instance.

    Args:
        sets: attributes that it sets or deletes.
        reads: attributes that it reads.
        conditions: attributes that decide which of its code runs.
        words: names and texts in it.
        keeps: it uses its instance for its attributes only, and catches nothing.
    """

    sets: frozenset[str]
    reads: frozenset[str]
    conditions: frozenset[str]
    words: frozenset[str]
    keeps: bool

    @classmethod
    def of(cls, function: object) -> _Source | None:
        """Read a function; ``None`` where its source does not show what it does."""
        method = _method(function)
        if method is None:
            return None
        instance, nodes = method
        uses = [one for one in nodes if isinstance(one, ast.Name) and one.id == instance]
        if not all(isinstance(one.ctx, ast.Load) for one in uses):
            return None
        attributes = _attributes(nodes, instance)
        deciding = [part for one in nodes for condition in _conditions(one) for part in ast.walk(condition)]
        caught = any(isinstance(one, ast.Try | ast.TryStar) for one in nodes)
        return cls(
            sets=frozenset(one.attr for one in attributes if not isinstance(one.ctx, ast.Load)),
            reads=frozenset(one.attr for one in attributes if isinstance(one.ctx, ast.Load)),
            conditions=frozenset(one.attr for one in _attributes(deciding, instance)),
            words=frozenset(_words_in(nodes)),
            keeps=len(uses) == len(attributes) and not caught,
        )

    def fails_without(self, name: str) -> bool:
        """Whether it fails where its instance lacks the attribute, unless a method that it calls sets it."""
        return self.keeps and self.conditions <= {name} and not self.words & (_UNCLEAR | {name})


class _Surroundings:
    """What of a class runs besides its steps and undos.

    Args:
        cls: the class.
        steps: the functions of its steps and undos.
    """

    def __init__(self, cls: type[Any], steps: Iterable[Callable[..., Any]]) -> None:
        self._bases = [
            one for one in cls.__mro__ if one.__module__ not in ("builtins", "typing", "sagas.authoring.saga")
        ]
        self._steps = [inspect.unwrap(one) for one in steps]

    @cached_property
    def methods(self) -> dict[str, list[FunctionType]]:
        """The functions in the bodies of the class and its bases, by name; those of a property are several."""
        members = [member for base in reversed(self._bases) for member in vars(base).items()]
        return {name: functions for name, value in members if (functions := list(_inside(value)))}

    def helpers(self) -> Iterator[tuple[str, FunctionType]]:
        """The functions that are no step or undo."""
        for name, functions in self.methods.items():
            yield from ((name, function) for function in functions if function not in self._steps)

    def may_set(self, name: str) -> bool:
        """Whether the class body, ``create()``, or what these call may have set an attribute."""
        for base in self._bases:
            if name in vars(base) or _annotates(base, name) or any(hook in vars(base) for hook in _HOOKS):
                return True
        return not self._made_plainly or any(name in _words(one.__code__) for _, one in self.helpers())

    @cached_property
    def _made_plainly(self) -> bool:
        """Whether nothing but the methods of the class sees an instance while it is made."""
        for base in self._bases:
            for name in ("__init__", "__post_init__"):
                source = _Source.of(vars(base)[name]) if name in vars(base) else None
                if name in vars(base) and (source is None or not source.keeps or source.reads & self.methods.keys()):
                    return False
            if "create" in vars(base) and not _calls_its_class(vars(base)["create"]):
                return False
        return True


def _calls_its_class(create: Any) -> bool:
    """Whether a ``create()`` uses its class for nothing but to call it, and returns what that returns."""
    node = _node(getattr(create, "__func__", None))
    if node is None or len(node.args.args) != 1:
        return False
    own, nodes = node.args.args[0].arg, [one for statement in node.body for one in ast.walk(statement)]
    returned = [one.value for one in nodes if isinstance(one, ast.Return)]
    called = [one.func for one in returned if isinstance(one, ast.Call)]
    uses = [one for one in nodes if isinstance(one, ast.Name) and one.id in (own, "super")]
    return bool(uses) and len(uses) == len(returned) and all(one in called for one in uses)


def _node(function: object) -> ast.FunctionDef | ast.AsyncFunctionDef | None:
    """Parse a function; ``None`` if its source is not there, or another function is around it."""
    if not isinstance(function, FunctionType) or hasattr(function, "__wrapped__"):
        return None
    try:
        text = inspect.getsource(function)
        # A method's lines are indented: they stand in a class here, too.
        node = ast.parse(f"class _:\n{text}" if text[:1].isspace() else text).body[0]
    except (OSError, TypeError, SyntaxError, ValueError):
        return None
    node = node.body[0] if isinstance(node, ast.ClassDef) else node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name != function.__name__:
        return None
    # A file that was changed after it was loaded shows other code.
    used = {one.attr for statement in node.body for one in ast.walk(statement) if isinstance(one, ast.Attribute)}
    return node if used <= _words(function.__code__) else None


def _method(function: object) -> tuple[str, list[ast.AST]] | None:
    """What the instance is called in a method, and the nodes of its code; ``None`` where the source is not at hand, or
    a function within has a parameter of that name, too."""
    node = _node(function)
    parameters = [] if node is None else [one.arg for one in ast.walk(node) if isinstance(one, ast.arg)]
    if node is None or not parameters or parameters.count(parameters[0]) > 1:
        return None
    return parameters[0], [one for statement in node.body for one in ast.walk(statement)]


def _words_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names and texts."""
    for one in nodes:
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            yield one.value


def _attributes(nodes: Iterable[ast.AST], instance: str) -> list[ast.Attribute]:
    attributes = [one for one in nodes if isinstance(one, ast.Attribute)]
    return [one for one in attributes if isinstance(one.value, ast.Name) and one.value.id == instance]


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
    """Whether a class body annotates a name: a decorator of the class may make a field of it."""
    try:
        return name in inspect.get_annotations(base)
    except NameError:  # from Python 3.14 on annotations are lazy, and may name what is not imported
        return True
