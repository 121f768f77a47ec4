"""The base class of sagas. Its subclasses are read and checked when they are created."""

from __future__ import annotations

import inspect
import sys
from abc import ABCMeta
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from msgspec.structs import replace

from sagas.authoring.context import Context, OrphanedObject
from sagas.authoring.definition.building import build
from sagas.authoring.definition.definition import DEFINITION, OPTION_NAMES, SagaDefinition, SagaOptions, kebab
from sagas.authoring.definition.members import HOOK, ClassBody, collect
from sagas.authoring.policies import AutoDisable, OrphanSweep, Retry
from sagas.authoring.signatures import NameScope, bindings, has_type_variables, resolve, scope_of
from sagas.authoring.steps import Compensation, Member
from sagas.errors import DefinitionError

ReqT = TypeVar("ReqT")

_OPTIONS = "__saga_options__"


def _where(class_name: str, keywords: Mapping[str, Any]) -> str:
    name = keywords.get("name")
    return f'{class_name} (saga "{kebab(class_name) if name is None else name}")'


def _refuse_keywords(where: str, unknown: Mapping[str, Any]) -> NoReturn:
    names = ", ".join(OPTION_NAMES)
    raise DefinitionError(f'{where}: unknown class keyword "{next(iter(unknown))}"; expected one of {names}')


def _define(cls: type[Any], body: Mapping[str, Any]) -> None:
    """Read and check a class, and store its definition in it. A class that serves only as a base has no definition."""
    earlier = body.get(DEFINITION)
    if isinstance(earlier, SagaDefinition):
        # @dataclass(slots=True) creates the class a second time from its finished namespace.
        setattr(cls, DEFINITION, replace(earlier, saga_class=cls))
        return
    keywords = _keywords(cls)
    where = _where(cls.__name__, keywords)

    scope = (body.scope if isinstance(body, ClassBody) else NameScope({}, {})).within(cls)
    open_variables: tuple[Any, ...] = getattr(cls, "__parameters__", ())
    bound = bindings(cls)
    request_type = bound.get(ReqT, ReqT)
    if request_type is ReqT or (has_type_variables(request_type) and not open_variables):
        raise DefinitionError(f"{where}: the request type is missing; derive from Saga[YourRequest]")
    module: dict[str, Any] = vars(sys.modules[cls.__module__]) if cls.__module__ in sys.modules else {}
    try:
        request_type = resolve(request_type, module, scope)
    except DefinitionError as error:
        raise DefinitionError(f"{where}: the request type {error}") from None

    members = collect(cls, where)
    _check_around(cls, where)
    if has_type_variables(request_type) or open_variables or inspect.isabstract(cls):
        return  # the class serves only as a base
    options = SagaOptions(cls.__name__, **keywords)
    _check_creator(cls, where)
    setattr(cls, DEFINITION, build(cls, options, request_type, members, scope=scope, bound=bound, reserved=dir(Saga)))


def _keywords(cls: type[Any]) -> dict[str, Any]:
    """Return the options of a class, including those of its bases."""
    keywords: dict[str, Any] = {}
    for base in reversed(cls.__mro__[1:]):
        keywords.update(vars(base).get(_OPTIONS, {}))
    keywords.pop("name", None)  # a subclass is another saga type
    keywords.update(vars(cls)[_OPTIONS])
    if keywords.get("name") is None:
        keywords["name"] = kebab(cls.__name__)
    return keywords


def _check_creator(cls: type[Any], where: str) -> None:
    """Check that Saga.create(), which passes no arguments, can make an instance. An override is checked only when
    called."""
    creator = next(base for base in cls.__mro__ if "create" in vars(base))
    if creator is not Saga or cls.__init__ is object.__init__:
        return
    _self, *parameters = inspect.signature(cls.__init__).parameters.values()
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    required = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty and parameter.kind not in variadic
    ]
    if required:
        message = f"__init__ needs {', '.join(required)}; override the classmethod create() to pass them"
        raise DefinitionError(f"{where}: {message}")


def _check_around(cls: type[Any], where: str) -> None:
    """Check that ``around`` is a method that returns a plain context manager, as far as its class shows."""
    around = inspect.getattr_static(cls, HOOK)
    if isinstance(around, Compensation):
        return  # its name is refused with those of the other undos
    if isinstance(around, Member):
        advice = f'name the step otherwise, with name="{HOOK}"'
        raise DefinitionError(f'{where}: step "{HOOK}": "{HOOK}" is the hook of the class; {advice}')
    wrapped = inspect.unwrap(around) if callable(around) else around
    kinds = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)
    if any(is_async(function) for function in (around, wrapped) for is_async in kinds):
        raise DefinitionError(f"{where}: around must be a context manager: a plain one, also for async steps")
    method = not isinstance(around, staticmethod | classmethod | type)
    if method and (not callable(around) or inspect.isgeneratorfunction(around)):
        raise DefinitionError(f"{where}: around must be a context manager: put @contextmanager above it")
    if not method or [*inspect.signature(around).parameters][1:] != ["ctx"]:
        raise DefinitionError(f"{where}: around takes (self, ctx)")


if TYPE_CHECKING:
    # If type checkers saw ABCMeta, they would no longer check class keywords.
    _Meta = type
else:

    class _Meta(ABCMeta):
        """Reads a saga class when the class is created. It derives from ABCMeta, so a mixin can be an ABC."""

        @classmethod
        def __prepare__(cls, name, bases, /, **keywords):
            frame = inspect.currentframe()
            return ClassBody(_where(name, keywords), scope_of(frame.f_back))

        def __new__(metacls, name, bases, body, /, **keywords):
            own = {key: keywords.pop(key) for key in OPTION_NAMES if key in keywords}
            try:
                cls = super().__new__(metacls, name, bases, {_OPTIONS: own, **body}, **keywords)
            except TypeError:
                if keywords:  # a mixin before Saga takes no keywords
                    _refuse_keywords(_where(name, own), keywords)
                raise
            if bases != (Generic,):
                _define(cls, body)
            return cls


class Saga(Generic[ReqT], metaclass=_Meta):
    """A saga: a class whose methods, decorated with ``@step``, run in the order of the class body.

    Parameters are filled by name: ``request``, ``ctx``, or the name of an earlier step for its result. The class is
    checked when it is created; mistakes raise a :class:`DefinitionError`.

    A subclass inherits steps, undos and all class keywords except ``name``. A class with an open type variable
    (``class Audited(Saga[T])``) or abstract methods serves only as a base: it is not checked and has no definition.

    Class keywords:
        name: 1 to 40 characters of a-z, 0-9 and ``-``, starting with a letter, and not ``commands``; by default the
            class's name in kebab-case.
        version: a text that is recorded with every saga, and never interpreted.
        lock_expiry: the length of the lease. A heartbeat extends the lease after half of this time.
        max_recovery_attempts: how often the supervisor restarts a saga that makes no progress.
        auto_disable: the policy that refuses new starts of a type that keeps failing; off by default.
        orphans: the policy that sweeps S3 objects left behind; off by default.
        stale_after: time without progress after which a message counts as lost.
        timeout: how long a saga can take, at most 365 days. Then it is cancelled and undone, and ends COMPENSATED with
            the error ``SagaTimedOut``. After its pivot, it continues, and the attention list shows it. None by default.
        retry: the retry policy of steps that do not set their own. Default: five retries, exponential from 2 s, full
            jitter.
        undo_retry: the retry policy of undos that do not set their own. Default: the policy of the step.
        step_timeout: the timeout of steps that do not set their own: seconds or a timedelta. Default: 30 seconds.
        result: the stored name of the step whose result becomes the saga's result, or the name of that result; the last
            step by default.
        cancellable: whether callers may cancel sagas of this type. If not, an operator may still undo a saga that has
            stopped and waits for an operator.
        in_doubt_on: exception types that say nothing about the effect of a step, in addition to those of the usual
            clients. After one, the outcome of the step is in doubt.
        redact: values that readers see as ``***``, in addition to those of type ``Secret``: paths into the request or a
            step's result, like ``$.request.card.number`` or ``$.book.seats[*].code``.
        find_by: search keys: at most four values of the request by name, like ``{"customer": "$.customer.id"}``. They
            must be strings, integers or booleans.
        upcast: functions that convert values which sagas in flight stored in an older shape, by ``"request"`` or a
            step's stored name. Each is called with the JSON (dict, list, str, int, float, bool or None) of a value that
            does not fit the deployed type, and returns a value of that type. It must be pure and accept all older
            shapes. Stored values do not change. The request of a new saga must fit the deployed type.
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
            retry: Retry | None = None,
            undo_retry: Retry | None = None,
            step_timeout: float | timedelta | None = None,
            result: str | None = None,
            cancellable: bool = True,
            in_doubt_on: Collection[type[BaseException]] = (),
            redact: Sequence[str] = (),
            find_by: Mapping[str, str] = {},
            upcast: Mapping[str, Callable[[Any], Any]] = {},
        ) -> None: ...

    else:

        def __init_subclass__(cls, **unknown):
            # The metaclass has consumed Saga's keywords, and each mixin consumes its own.
            if unknown:
                _refuse_keywords(_where(cls.__name__, vars(cls)[_OPTIONS]), unknown)
            super().__init_subclass__()

    @classmethod
    def create(cls) -> Self:
        """Create the instance that runs one attempt of a step or undo. Override this method to read configuration."""
        return cls()

    def around(self, ctx: Context) -> AbstractContextManager[object]:
        """Override this method with a context manager that is entered around the code of each attempt: of a step, of an
        undo, and of the method of a ``wait_for``. It is not entered around ``until=``, or around the method of
        ``@children``.

        It is entered after :meth:`create`, on the same instance. Its time is part of the attempt's timeout. What it
        raises is the attempt's error, as if the code had raised it. It must not swallow an exception: the attempt then
        fails with :class:`WrongResult`. Write ``with super().around(ctx):`` to nest the ``around`` of several classes.

        Args:
            ctx: the attempt's context.

        Returns:
            The context manager. That of ``Saga`` does nothing.
        """
        return nullcontext()

    def on_orphans(self, orphans: Sequence[OrphanedObject], ctx: Context) -> Awaitable[None] | None:
        """Override this method to handle orphaned objects yourself, instead of the action of ``orphans``.

        It is called once per page of the listing that has orphans, but not in a dry run. The next sweep passes objects
        again if they are still there, for example because the call raised.

        Args:
            orphans: at most 1,000 objects in the order of their keys, each with its size and the time it was stored.
                All objects are older than ``min_age``, and their sagas have ended.
            ctx: ``saga``, ``deadline``, ``remaining_time()``, ``logger`` and ``client()`` are as in a step. ``saga_id``
                is empty, since the orphans belong to many sagas.
        """
        raise NotImplementedError
