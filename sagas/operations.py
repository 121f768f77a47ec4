"""The operations of a service, with a row for each.

The routes and the OpenAPI description of the API come from these rows, and so do IAM rights, calls of the client, CLI
commands, buttons of the console and messages of the command queue. So an operation is declared only once. Exceptions
are query parameters and parts that depend on a saga type: ``sagas/handlers`` describes them where it reads them. This
module imports nothing from the engine, because the client and the CDK import it, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any
from urllib.parse import quote

from sagas.core.states import ENDED, SagaStatus
from sagas.errors import NotFound

_PARAMETER = re.compile(r"\{(\w+)\}")
_TYPE = "type"
"""The path parameter for the saga type."""


LARGEST_BODY = 256 * 1024
"""The maximum size of a call's body in bytes."""
_WHY = "Reason, for the audit trail"


def _option(help: str, *flags: str) -> dict[str, Any]:
    """Return metadata that makes a field of a body a CLI option: its help, and flags if they differ from the name."""
    return {"help": help, "flags": flags}


@dataclass(frozen=True)
class Reason:
    """The body of a request with only a reason, for example a purge."""

    reason: str = field(default="", metadata=_option(_WHY))


SEQ_HELP = "Number of the last audit entry that you have seen; refused if the saga has a later one"
_SEQ = "seq"
"""The field that names the state of a saga, so that an operator's call acts on no other state."""


def _seq() -> Any:
    return field(default=None, metadata=_option(SEQ_HELP))


@dataclass(frozen=True)
class RetryRequest:
    """The body of a retry. With ``seq``, it acts only on a saga whose last audit entry has this number."""

    reason: str = field(default="", metadata=_option(_WHY))
    seq: int | None = _seq()


@dataclass(frozen=True)
class Cancellation:
    """The body of a cancel. With ``force``, a child is cancelled even if its parent has not ended."""

    reason: str = field(default="", metadata=_option(_WHY))
    force: bool = field(default=False, metadata=_option("Also cancel a child whose parent has not ended"))


@dataclass(frozen=True)
class CompensationRequest:
    """The body of a request to undo a saga. With ``force`` and a reason, it may be COMPLETED or past its pivot. With
    ``seq``, its last audit entry must have this number."""

    reason: str = field(default="", metadata=_option(_WHY))
    force: bool = field(default=False, metadata=_option("Also undo a saga that is COMPLETED or past its pivot"))
    seq: int | None = _seq()


@dataclass(frozen=True)
class Resolution:
    """How a saga was settled by hand. ``steps`` are the steps that were undone by hand. With ``seq``, the saga's last
    audit entry must have this number."""

    reason: str = field(metadata=_option("Why the saga is settled, for the audit trail"))
    action: str = field(default="", metadata=_option("What you did"))
    steps: list[str] = field(default_factory=list[str], metadata=_option("A step that you undid by hand", "--undone"))
    seq: int | None = _seq()


@dataclass(frozen=True)
class RecoveryAttempts:
    """How often a saga has stalled since its last progress. 0 restores all recovery attempts."""

    attempts: int


@dataclass(frozen=True)
class RecoveryOptions:
    """The stalled sagas to recover now, as in ``sagas.handlers.tasks.recovering``. Default: all of a type."""

    saga_id: str | None = None
    stale_after: float | None = None
    limit: int | None = None
    max_attempts: int | None = None
    dry_run: bool = False


@dataclass(frozen=True)
class PauseChange:
    """A pause or a resume and its reason. Set either ``paused`` or ``active``.

    ``paused`` applies to all sagas of the type, to those at ``step``, or to the saga ``saga_id``. In addition,
    ``starts`` accepts new sagas, which then wait, and ``undos`` pauses undos, too. ``active`` applies only to new
    sagas: false refuses them, true resumes the type.
    """

    active: bool | None = None
    paused: bool | None = None
    step: str | None = None
    saga_id: str | None = None
    starts: bool = False
    undos: bool = False
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Verb:
    """The texts of an operation on one saga, for operators. Operations that are not for operators have no texts.

    Args:
        help: the help of the CLI command. The command's options are the fields of the body.
        label: the label of the console's button; empty if there is no button.
        effect: a sentence for the console that says what the operation does.
        confirmation: a sentence that the console shows after the operation.
        at_once: whether the console acts without asking for a reason.
    """

    help: str = ""
    label: str = ""
    effect: str = ""
    confirmation: str = ""
    at_once: bool = False


_NO_VERB = Verb()


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the API.

    Args:
        name: the start of the operation's id in OpenAPI, and the name of the function that serves it.
        method: the HTTP method.
        path: the path below the stage. ``{type}`` is a saga type.
        right: the right that callers need; see :data:`sagas.cdk.access.grants.RIGHTS`.
        summary: what the operation does, in a few words, with ``{type}`` in place of the type.
        answer: the names of the answer's schemas in OpenAPI.
        statuses: the HTTP statuses of the answer.
        errors: the HTTP statuses of errors, except those that any call can get.
        body: the class of the body, if it is in this module. For a method without a body, the class of the query.
        has_etag: whether callers poll, and can send the ``ETag`` of the last answer.
        verb: the texts for operators.
        bulk_statuses: the default statuses of the sagas of a bulk call; empty if there is no bulk call.
        queued: whether a message of the command queue can request the operation.
        description: a sentence or more for OpenAPI. Default: the effect of the verb.
    """

    name: str
    method: str
    path: str
    right: str
    summary: str
    answer: str
    statuses: str = "200"
    errors: str = "404 422"
    body: type[Any] | None = None
    has_etag: bool = False
    verb: Verb = _NO_VERB
    bulk_statuses: tuple[SagaStatus, ...] = ()
    queued: bool = False
    description: str = ""

    @property
    def typed(self) -> bool:
        """Whether OpenAPI describes the operation once per saga type."""
        return self.path.startswith("/sagas/{type}")

    @property
    def parameters(self) -> tuple[str, ...]:
        return tuple(_PARAMETER.findall(self.path))

    @property
    def resource(self) -> str:
        """The path in API Gateway, which has one name per position: after ``/sagas``, a ``{saga_id}`` is ``{type}``."""
        path = self.path.replace("{saga_id}", "{id}")
        return "/sagas/{type}" if path == "/sagas/{id}" else path

    @property
    def options(self) -> tuple[Field[Any], ...]:
        """The fields of the body that are options for operators."""
        return (
            tuple(option for option in fields(self.body) if "help" in option.metadata) if self.body is not None else ()
        )

    @property
    def bulk_options(self) -> tuple[str, ...]:
        """The names of the options that many sagas can share, without the reason."""
        return tuple(option.name for option in self.options if option.name not in ("reason", _SEQ))

    @property
    def takes_seq(self) -> bool:
        """Whether the operation can name the state that it is for."""
        return any(option.name == _SEQ for option in self.options)

    @property
    def needed(self) -> tuple[str, ...]:
        """The names of the options that operators must give."""
        return tuple(option.name for option in self.options if option.default is option.default_factory is MISSING)

    def path_for(self, values: Sequence[str]) -> str:
        """Return the path with these values for its parameters, in order. The values are quoted."""
        for value in values:
            if value in ("", ".", ".."):
                raise NotFound(f"{value!r} cannot be part of a path")
        parts = iter(values)
        try:
            return _PARAMETER.sub(lambda _: quote(next(parts), safe=""), self.path)
        except UnicodeEncodeError as error:  # half of a surrogate pair
            raise NotFound(f"{error.object!r} cannot be part of a path") from error

    def pattern(self, *, of_type: bool = False) -> str:
        """Return the method and path in the form of an IAM resource. ``*`` replaces each parameter, and also matches
        slashes. With ``of_type``, ``{type}`` is not replaced."""

        def starred(match: re.Match[str]) -> str:
            return "{type}" if of_type and match[1] == _TYPE else "*"

        return self.method + re.sub(r"\*(/\*)+", "*", _PARAMETER.sub(starred, self.path))


_CHANGE = "404 409 413 422"
_ONE = "/sagas/{type}/{saga_id}"

LIST = Operation(
    *("list_sagas", "GET", "/sagas", "read", "List sagas", "Sagas"),
    has_etag=True,
    description="Newest first. `since` (inclusive) and `until` (exclusive) apply to the start. With a final status and "
    "no search key, they apply to the end, and the last saga to end comes first. A page with a cursor can be short, "
    "even empty.",
)
LOOK_UP = Operation(
    *("look_up", "GET", "/sagas/{saga_id}", "read", "Show a saga by its id", "Saga", "200", "404 409 422"),
    has_etag=True,
    description="The start of an id is enough if it is unique; otherwise the answer is 409.",
)
START = Operation(
    *("start", "POST", "/sagas/{type}", "start", "Start {type}", "Saga"),
    statuses="200 202",
    errors="404 413 422",
    queued=True,
    description="Start a saga. The answer does not wait for its steps.",
)
SHOW = Operation(
    *("show", "GET", _ONE, "read", "Show one {type}", "Saga"),
    has_etag=True,
    description="The answer has its request, and its steps with their results.",
)
CANCEL = Operation(
    *("cancel", "DELETE", _ONE, "cancel", "Cancel one {type}", "Saga", "200 202", "404 409 422"),
    body=Cancellation,
    verb=Verb(
        help="Cancel a saga: it stops, and its completed steps are undone.",
        label="Cancel",
        effect="The saga stops, and its completed steps are undone in reverse order.",
        confirmation="The saga is being cancelled.",
    ),
    bulk_statuses=tuple(status for status in SagaStatus if status not in ENDED and status != SagaStatus.COMPENSATING),
    queued=True,
)
AUDIT = Operation(
    *("audit", "GET", f"{_ONE}/audit", "read", "Show the audit trail", "Entries"),
    description="The entries are in the order in which they were committed.",
)
VERIFY = Operation(
    *("verify", "GET", f"{_ONE}/verification", "read", "Verify the hashes of the audit trail", "Verification"),
    description="All entries are read. None may be changed or missing.",
)
RETRY = Operation(
    *("retry", "POST", f"{_ONE}/retry", "operate", "Retry one {type}", "Saga", "202", _CHANGE),
    body=RetryRequest,
    verb=Verb(
        help="Retry sagas that have stopped: the failed step, the failed undos, or a step whose function handled no "
        "message.",
        label="Retry",
        effect="The failed step or undo runs again, with the same idempotency key. Completed steps do not run again.",
        confirmation="The saga is being retried.",
        at_once=True,
    ),
    bulk_statuses=(SagaStatus.DEAD_LETTERED, SagaStatus.COMPENSATION_FAILED),
)
COMPENSATE = Operation(
    *("compensate", "POST", f"{_ONE}/compensate", "operate", "Undo one {type}", "Saga", "202", _CHANGE),
    body=CompensationRequest,
    verb=Verb(
        help="Give up on a DEAD_LETTERED or FAILED saga and undo its completed steps.",
        label="Undo",
        effect="The saga is given up, and its completed steps are undone in reverse order.",
        confirmation="The saga is being undone.",
    ),
    bulk_statuses=(SagaStatus.DEAD_LETTERED, SagaStatus.FAILED),
)
RESOLVE = Operation(
    *("resolve", "POST", f"{_ONE}/resolve", "operate", "Mark one {type} as settled by hand", "Saga", "200", _CHANGE),
    body=Resolution,
    verb=Verb(
        help="Mark a saga that needs an operator as settled by hand: it leaves the attention list.",
        label="Mark as settled",
        effect="The saga leaves the attention list. No code runs. The audit trail keeps your reason.",
        confirmation="The saga is marked as settled.",
    ),
    bulk_statuses=tuple(SagaStatus),
)
SIGNAL = Operation(
    *("signal", "POST", f"{_ONE}/signals/{{step}}", "signal", "Send a signal to one {type}", "Saga"),
    statuses="200 202",
    errors=_CHANGE,
    queued=True,
    description="202: accepted. 200: the same value was accepted before. A signal can arrive before its step starts.",
)
PURGE = Operation(
    *("purge", "POST", f"{_ONE}/purge", "purge", "Purge one {type}: delete its stored data, except the tombstone"),
    *("Saga", "200", _CHANGE),
    body=Reason,
    verb=Verb(
        help="Delete the stored data of a saga that has ended, and list the S3 objects in its results, which the sweep "
        "handles."
    ),
    description="The saga must have ended. The answer lists the S3 objects in its results, which the sweep handles.",
)
SET_RECOVERY_ATTEMPTS = Operation(
    *(
        "set_recovery_attempts",
        "PUT",
        f"{_ONE}/recovery-attempts",
        "operate",
        "Set the recovery attempts of one {type}",
    ),
    *("Saga", "200", _CHANGE),
    body=RecoveryAttempts,
    description="They count how often the saga has stalled since its last progress. 0 restores all of them. A saga at "
    "its type's maximum is undone when it stalls; pause a saga to keep it as it is.",
)
ATTENTION = Operation(
    *("list_attention", "GET", "/attention", "read", "List the sagas that need an operator", "Sagas Incidents"),
    has_etag=True,
    description="They cannot continue on their own, except for those that wait for a release or for their inputs. "
    "`group=incident` counts them by what is wrong.",
)
OVERVIEW = Operation(
    *("overview", "GET", "/overview", "read", "Show what needs an operator, in numbers", "Overview"),
    errors="422",
    description="What the supervisor found at the time `at`: sagas that need attention, by type, sagas in flight, "
    "overdue sagas, open circuit breakers, and pauses. The answer takes few reads, so it suits polling.",
)
TYPES = Operation(
    *("list_types", "GET", "/types", "read", "List the saga types", "Types"),
    errors="422",
    description="Those that are deployed, with their steps and pauses.",
)
TYPE = Operation(
    *("show_type", "GET", "/types/{type}", "read", "Show a saga type", "Type"),
    description="The answer has its steps, its pauses and the JSON Schema of its request.",
)
IN_FLIGHT = Operation(
    *("show_in_flight", "GET", "/types/{type}/in-flight", "read"),
    *("Group a type's sagas in flight by blueprint and position", "InFlight"),
    description="Show what a new release has to fit. `sagas check` reads it.",
)
CHANGE = Operation(
    *("change_type", "PUT", "/types/{type}", "operate", "Pause or resume a type, a step or one saga"),
    *("Type", "200", _CHANGE),
    body=PauseChange,
    description="Set either `paused` or `active`. A pause lasts until you resume. You can also resume a step that a "
    "release has removed.",
)
RECOVER = Operation(
    *("recover", "POST", "/types/{type}/recover", "operate", "Recover stalled sagas now", "Recovery"),
    errors="404 409 413 422",
    body=RecoveryOptions,
    description="The supervisor does the same at regular intervals.",
)
STATS = Operation(
    *("stats", "GET", "/stats", "read", "Count sagas by type and status", "Stats"),
    description="Counts sagas in flight, and sagas that ended since a time.",
)
BREAKERS = Operation(
    *("list_breakers", "GET", "/breakers", "read", "List the circuit breakers", "Breakers"),
    errors="422",
    description="Only a step that declares a breaker has one.",
)
CLOSE_BREAKER = Operation(
    *("close_breaker", "POST", "/breakers/{type}/{step}/close", "operate", "Close a circuit breaker", "Breaker"),
    description="Let sagas at the step continue before the breaker's open period ends.",
)
OPENAPI = Operation(
    *("openapi", "GET", "/openapi.json", "read", "Show this description", ""),
    errors="422",
    description="It has the operations of each saga type, and the schemas of its request, its result and its signals.",
)

OPERATIONS: tuple[Operation, ...] = (
    *(LIST, LOOK_UP, START, SHOW, CANCEL, AUDIT, VERIFY, RETRY, COMPENSATE, RESOLVE, SIGNAL, PURGE),
    *(SET_RECOVERY_ATTEMPTS, ATTENTION, TYPES, TYPE, IN_FLIGHT, CHANGE, RECOVER, STATS, BREAKERS, CLOSE_BREAKER),
    *(OVERVIEW, OPENAPI),
)
"""All operations, except the route of public waits, which needs no right."""

VERBS = {operation.name: operation for operation in OPERATIONS if operation.verb.help}
"""The operations for operators on one saga, by name. Those with ``bulk_statuses`` are also for many sagas."""
