"""The base class of sagas, and the moment its subclasses are read and checked."""

from __future__ import annotations

import dataclasses
import inspect
import sys
from abc import ABCMeta
from collections.abc import Awaitable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from sagas.authoring.context import Context, OrphanedObject
from sagas.authoring.definition.building import build
from sagas.authoring.definition.definition import DEFINITION, SagaDefinition
from sagas.authoring.definition.members import ClassBody, collect
from sagas.authoring.options import OPTION_NAMES, SagaOptions, kebab
from sagas.authoring.policies import AutoDisable, OrphanSweep
from sagas.authoring.signatures.generics import bindings, has_type_variables
from sagas.authoring.signatures.scope import Scope, resolve, scope_of
from sagas.errors import DefinitionError

ReqT = TypeVar("ReqT")

_OPTIONS = "__saga_options__"


def _where(class_name: str, keywords: Mapping[str, Any]) -> str:
    name = keywords.get("name")
    return f'{class_name} (saga "{kebab(class_name) if name is None else name}")'


def _refuse_keywords(where: str, unknown: Mapping[str, Any]) -> NoReturn:
    known = ", ".join(OPTION_NAMES)
    raise DefinitionError(f'{where}: unknown class keyword "{next(iter(unknown))}"; known are {known}')


def _define(cls: type[Any], body: Mapping[str, Any]) -> None:
    """Read and check a class, and keep its definition with it; of a base only there is none."""
    earlier = body.get(DEFINITION)
    if isinstance(earlier, SagaDefinition):
        # @dataclass(slots=True) makes the class again from its finished namespace
        setattr(cls, DEFINITION, dataclasses.replace(earlier, saga_class=cls))
        return
    keywords = _keywords(cls)
    where = _where(cls.__name__, keywords)

    scope = (body.scope if isinstance(body, ClassBody) else Scope({}, {})).within(cls)
    open_variables: tuple[Any, ...] = getattr(cls, "__parameters__", ())
    bound = bindings(cls)
    request_type = bound.get(ReqT, ReqT)
    if request_type is ReqT or (has_type_variables(request_type) and not open_variables):
        raise DefinitionError(f"{where}: the type of its request is missing; derive from Saga[TheRequest]")
    module: dict[str, Any] = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    try:
        request_type = resolve(request_type, module, scope)
    except DefinitionError as error:
        raise DefinitionError(f"{where}: the type of its request {error}") from None

    members = collect(cls, where)
    if has_type_variables(request_type) or open_variables or inspect.isabstract(cls):
        return  # a base only
    options = SagaOptions(cls.__name__, **keywords)
    _check_maker(cls, where)
    setattr(cls, DEFINITION, build(cls, options, request_type, members, scope=scope, bound=bound, reserved=dir(Saga)))


def _keywords(cls: type[Any]) -> dict[str, Any]:
    """The options of a class: its own, and those of its bases."""
    keywords: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        keywords.update(vars(base).get(_OPTIONS, {}))
    keywords.pop("name", None)  # a subclass is another saga
    keywords.update(vars(cls)[_OPTIONS])
    if keywords.get("name") is None:
        keywords["name"] = kebab(cls.__name__)
    return keywords


def _check_maker(cls: type[Any], where: str) -> None:
    """The create() of Saga must be able to make an instance. What one of the class's own does is seen when it is
    called."""
    maker = next(base for base in cls.__mro__ if "create" in vars(base))
    if maker is not Saga or cls.__init__ is object.__init__:
        return
    _self, *parameters = inspect.signature(cls.__init__).parameters.values()
    several = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [one.name for one in parameters if one.default is one.empty and one.kind not in several]
    if required:
        message = f"__init__ takes {', '.join(required)}, which nothing gives it; override the classmethod create()"
        raise DefinitionError(f"{where}: {message}")


if TYPE_CHECKING:
    # a type checker that sees ABCMeta no longer checks class keywords
    _Meta = type
else:

    class _Meta(ABCMeta):
        """Reads a saga class when it is created. An ABCMeta, so that a mixin may be an ABC."""

        @classmethod
        def __prepare__(cls, name, bases, /, **keywords):
            frame = inspect.currentframe()
            return ClassBody(_where(name, keywords), scope_of(frame.f_back))

        def __new__(metacls, name, bases, body, /, **keywords):
            own = {key: keywords.pop(key) for key in OPTION_NAMES if key in keywords}
            try:
                cls = super().__new__(metacls, name, bases, {_OPTIONS: own, **body}, **keywords)
            except TypeError:
                if keywords:  # a mixin that takes no keywords stood before Saga
                    _refuse_keywords(_where(name, own), keywords)
                raise
            if bases != (Generic,):
                _define(cls, body)
            return cls


class Saga(Generic[ReqT], metaclass=_Meta):
    """A saga: a class whose methods, decorated with ``@step``, run in the order of the class body.

    Parameters are filled by name: ``request``, ``ctx``, or the name of an earlier step, which gives its result. The
    class is checked when it is created; whatever cannot work is a :class:`DefinitionError`.

    A subclass inherits steps, undos and class keywords, all but ``name``. A class that leaves a type variable open
    (``class Audited(Saga[T])``) or has abstract methods is a base only: it is not checked and has no definition.

    Class keywords:
        name: 1 to 40 characters of a-z, 0-9 and ``-``, from a letter; the class's name in kebab-case by default.
        version: recorded with every saga, never interpreted.
        lock_expiry: the length of the lease; a heartbeat extends it at half.
        max_recovery_attempts: how often the supervisor revives a saga that makes no progress.
        auto_disable: refuse new starts of a type that keeps failing; off by default.
        orphans: sweep S3 objects left behind; off by default.
        stale_after: silence after which a message counts as lost.
        timeout: how long the saga may take in all, at most a year (365 days); then it is cancelled and undone, and ends
            COMPENSATED with the error ``SagaTimedOut``. Past its pivot it goes on, and is on the attention list. None
            by default.
        result: the name of the step's result that is the saga's; the last step's by default.
        cancellable: whether callers may cancel sagas of this type. If not, an operator may still have one undone that
            waits for a person.
        redact: what is shown as ``***``, besides what is typed ``Secret``: paths into the request or a step's result,
            like ``$.request.card.number`` or ``$.book.seats[*].code``.
        find_by: what sagas are found by, besides their ids: at most four values of the request by name, like
            ``{"customer": "$.customer.id"}``; texts, whole numbers or booleans.
    """

    if TYPE_CHECKING:

        def __init_subclass__(
            cls,
            *,
            name: str | None = None,
            version: str = "1",
            lock_expiry: timedelta = timedelta(minutes=5),
            max_recovery_attempts: int = 5,
            auto_disable: AutoDisable | None = None,
            orphans: OrphanSweep | None = None,
            stale_after: timedelta = timedelta(minutes=2),
            timeout: timedelta | None = None,
            result: str | None = None,
            cancellable: bool = True,
            redact: Sequence[str] = (),
            find_by: Mapping[str, str] = {},
        ) -> None: ...

    else:

        def __init_subclass__(cls, **unknown):
            # the metaclass took the known ones, and a mixin its own
            if unknown:
                _refuse_keywords(_where(cls.__name__, vars(cls)[_OPTIONS]), unknown)
            super().__init_subclass__()

    @classmethod
    def create(cls) -> Self:
        """Make the instance that runs the steps, once a function environment. Override it to read configuration."""
        return cls()

    def on_orphans(self, orphans: Sequence[OrphanedObject], ctx: Context) -> Awaitable[None] | None:
        """Override it to deal with orphaned objects yourself: it is called in place of the action of ``orphans``.

        Called once for each page of the listing that has orphans, never in a dry run. What it leaves in place comes
        again with the next sweep; so does what it raised over.

        Args:
            orphans: at most a thousand objects, in the order of their keys, each with its size and when it was stored.
                All are old enough, and of sagas that are over.
            ctx: ``saga``, ``deadline``, ``remaining_time()``, ``logger`` and ``client()`` are as in a step. The
                orphans are those of many sagas, so ``saga_id`` is empty.
        """
        raise NotImplementedError


def definition_of(cls: type[Saga[Any]]) -> SagaDefinition:
    """Return what a saga class declares."""
    definition = vars(cls).get(DEFINITION) if isinstance(cls, type) else None  # pyright: ignore[reportUnnecessaryIsInstance] -- callers hand over what an app module holds
    if not isinstance(definition, SagaDefinition):
        name = getattr(cls, "__name__", repr(cls))
        raise DefinitionError(f"{name} is no saga class: it does not derive from Saga[...], or is a base only")
    return definition
