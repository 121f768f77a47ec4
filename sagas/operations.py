"""What can be asked of a service: one row for each operation.

The API's routes, its OpenAPI description, the rights of IAM, the client's calls, the commands of the command line, the
buttons of the console and the messages of the command queue come from these rows, so that an operation is declared
once. Parameters of the query and all that depends on a saga type are described where they are read, in
``sagas/handlers``. This module loads nothing of the engine: the client and the CDK read it, too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import Any
from urllib.parse import quote

from sagas.core.states import OVER, SagaStatus
from sagas.errors import NotFound

_PARAMETER = re.compile(r"\{(\w+)\}")
_TYPE = "type"
"""The parameter of paths that names a saga type."""


_WHY = "Why; kept in the audit trail"


def _option(help: str, *flags: str) -> dict[str, Any]:
    """Make a field of a body an option of the command line: what its help says, and its flags if they are not the
    field's name."""
    return {"help": help, "flags": flags}


@dataclass(frozen=True)
class Reason:
    """Why an operator retries or purges a saga."""

    reason: str = field(default="", metadata=_option(_WHY))


@dataclass(frozen=True)
class Cancellation:
    """Why a saga is cancelled. ``force``: also a child whose parent has not ended."""

    reason: str = field(default="", metadata=_option(_WHY))
    force: bool = field(default=False, metadata=_option("Also a child whose parent has not ended"))


@dataclass(frozen=True)
class Compensation:
    """Why an operator gives up on a saga and has it undone. ``force``: also one that is COMPLETED or past its pivot,
    where the reason is required."""

    reason: str = field(default="", metadata=_option(_WHY))
    force: bool = field(default=False, metadata=_option("Also one that is COMPLETED or past its pivot"))


@dataclass(frozen=True)
class Resolution:
    """How a saga was settled by hand. ``steps``: those whose undo was done."""

    reason: str = field(metadata=_option("Why it is settled; kept in the audit trail"))
    action: str = field(default="", metadata=_option("What was done"))
    steps: list[str] = field(
        default_factory=list[str], metadata=_option("Step that was undone by hand; repeatable", "--step")
    )


@dataclass(frozen=True)
class Attempts:
    """How often a saga counts as having stalled since its last progress."""

    attempts: int


@dataclass(frozen=True)
class Recovering:
    """Which sagas of a type are to be looked at now, as for :func:`sagas.handlers.tasks.recovering.recover`; by default
    all that are due."""

    saga_id: str | None = None
    stale_after: float | None = None
    limit: int | None = None
    max_attempts: int | None = None


@dataclass(frozen=True)
class Change:
    """What is paused or resumed, and why: either ``paused`` or ``active``.

    ``paused`` is about all sagas of a type, about those at ``step``, or about the saga ``saga_id``. With it, ``starts``
    accepts new sagas, which wait, and ``undos`` has undos wait, too. ``active`` is about new sagas only: false refuses
    them, true resumes the type.
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
    """What operators read of an operation on one saga; nothing where they do not ask for it.

    Args:
        help: what the command line says of its command, whose options are the fields of the body.
        label: what the console's button says; there is none without it.
        effect: what the console says that it does, in a sentence.
        done: what it says afterwards.
        at_once: the console asks for no reason.
    """

    help: str = ""
    label: str = ""
    effect: str = ""
    done: str = ""
    at_once: bool = False


_NO_VERB = Verb()


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the API.

    Args:
        name: the start of its id in OpenAPI, and the name of the function that serves it.
        method: of HTTP.
        path: below the stage. ``{type}`` is a saga type.
        right: that IAM asks for it; see :data:`sagas.cdk.access.grants.RIGHTS`.
        summary: in a few words; ``{type}`` is the type.
        answer: the schema of its answer, or each that there may be, by its name in OpenAPI.
        statuses: with which that is answered.
        errors: further statuses, besides those that every call may get.
        body: the class of its body, if that is one of this module; of its query where the method takes no body.
        polled: it is asked again and again: callers may send the ``ETag`` of the answer that they have.
        verb: what operators read of it, if they ask for it on one saga.
        many: clients do it to many sagas, too: by default to those of these statuses.
        queued: a message of the command queue may ask for it.
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
    polled: bool = False
    verb: Verb = _NO_VERB
    many: tuple[SagaStatus, ...] = ()
    queued: bool = False

    @property
    def typed(self) -> bool:
        """Whether OpenAPI describes it for each saga type, since its id is not unique without one."""
        return self.path.startswith("/sagas/{type}")

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the path's parameters."""
        return tuple(_PARAMETER.findall(self.path))

    @property
    def options(self) -> tuple[Field[Any], ...]:
        """The fields of its body that operators give it."""
        return tuple(one for one in fields(self.body) if "help" in one.metadata) if self.body is not None else ()

    @property
    def reason_required(self) -> bool:
        """Whether operators have to give a reason."""
        return any(one.name == "reason" and one.default is MISSING for one in self.options)

    def filled(self, values: Sequence[str]) -> str:
        """Return the path with its parameters filled in, in order, and quoted."""
        for value in values:
            if value in ("", ".", ".."):
                raise NotFound(f"there is nothing named {value!r}")
        parts = iter(values)
        try:
            return _PARAMETER.sub(lambda _: quote(next(parts), safe=""), self.path)
        except UnicodeEncodeError as error:  # half of a character
            raise NotFound(f"there is nothing named {error.object!r}") from error

    def pattern(self, *, of_type: bool = False) -> str:
        """Return the method and path as an IAM resource has them: ``*``, which spans slashes, stands for parameters,
        except the type's where ``of_type``."""

        def starred(match: re.Match[str]) -> str:
            return "{type}" if of_type and match[1] == _TYPE else "*"

        return self.method + re.sub(r"\*(/\*)+", "*", _PARAMETER.sub(starred, self.path))


_CHANGE = "404 409 413 422"
_ONE = "/sagas/{type}/{saga_id}"

LIST = Operation("list_sagas", "GET", "/sagas", "read", "List sagas", "Sagas", polled=True)
LOOK_UP = Operation(
    *("look_up", "GET", "/sagas/{saga_id}", "read", "Show a saga by its id alone", "Saga", "200", "404 409 422"),
    polled=True,
)
START = Operation(
    *("start", "POST", "/sagas/{type}", "start", "Start {type}", "Saga"),
    statuses="200 202",
    errors="404 413 422",
    queued=True,
)
SHOW = Operation("show", "GET", _ONE, "read", "Show one {type}", "Saga", polled=True)
CANCEL = Operation(
    *("cancel", "DELETE", _ONE, "cancel", "Cancel one {type}", "Saga", "200 202", "404 409 422"),
    body=Cancellation,
    verb=Verb(
        help="Cancel a saga: it stops, and its completed steps are undone.",
        label="Cancel",
        effect="It stops, and the undo of each completed step runs, the last first.",
        done="It is being cancelled.",
    ),
    many=tuple(status for status in SagaStatus if status not in OVER and status != SagaStatus.COMPENSATING),
    queued=True,
)
AUDIT = Operation("audit", "GET", f"{_ONE}/audit", "read", "The audit trail", "Entries")
VERIFY = Operation(
    "verify", "GET", f"{_ONE}/verification", "read", "Verify the audit trail by its hashes", "Verification"
)
RETRY = Operation(
    *("retry", "POST", f"{_ONE}/retry", "operate", "Retry what failed", "Saga", "202", _CHANGE),
    body=Reason,
    verb=Verb(
        help="Retry sagas that have stopped: the failed step, the failed undos, or a step whose function handled no "
        "message.",
        label="Retry",
        effect="What failed runs again, under the same idempotency key; what completed stays as it is.",
        done="It is tried again.",
        at_once=True,
    ),
    many=(SagaStatus.DEAD_LETTERED, SagaStatus.COMPENSATION_FAILED),
)
COMPENSATE = Operation(
    *("compensate", "POST", f"{_ONE}/compensate", "operate", "Give up and undo", "Saga", "202", _CHANGE),
    body=Compensation,
    verb=Verb(
        help="Give up on a DEAD_LETTERED or FAILED saga and undo its completed steps.",
        label="Undo",
        effect="It is given up: the undo of each completed step runs, the last first.",
        done="It is being undone.",
    ),
    many=(SagaStatus.DEAD_LETTERED, SagaStatus.FAILED),
)
RESOLVE = Operation(
    *("resolve", "POST", f"{_ONE}/resolve", "operate", "Settle by hand", "Saga", "200", _CHANGE),
    body=Resolution,
    verb=Verb(
        help="Mark a saga that needs an operator as settled: it leaves the attention list.",
        label="It is settled",
        effect="It leaves the attention list. Nothing runs; your reason is kept in the audit trail.",
        done="It is settled.",
    ),
    many=tuple(SagaStatus),
)
SIGNAL = Operation(
    *("signal", "POST", f"{_ONE}/signals/{{step}}", "signal", "Send a step what it waits for", "Saga"),
    statuses="200 202",
    errors=_CHANGE,
    queued=True,
)
PURGE = Operation(
    *("purge", "POST", f"{_ONE}/purge", "purge", "Delete the stored data of one that has ended, except the tombstone"),
    *("Saga", "200", _CHANGE),
    body=Reason,
    verb=Verb(
        help="Delete the stored data of a saga that has ended, and name the S3 objects in its results, which the sweep "
        "handles."
    ),
)
SET_RECOVERY_ATTEMPTS = Operation(
    *("set_recovery_attempts", "PUT", f"{_ONE}/recovery-attempts", "operate", "Set how often it has stalled"),
    *("Saga", "200", _CHANGE),
    body=Attempts,
)
ATTENTION = Operation(
    *("list_attention", "GET", "/attention", "read", "Sagas that need an operator", "Sagas Incidents"), polled=True
)
TYPES = Operation("list_types", "GET", "/types", "read", "The saga types", "Types", errors="422")
TYPE = Operation("show_type", "GET", "/types/{type}", "read", "One saga type", "Type")
CHANGE = Operation(
    *("change_type", "PUT", "/types/{type}", "operate", "Pause or resume a type, a step or one saga"),
    *("Type", "200", _CHANGE),
    body=Change,
)
RECOVER = Operation(
    *("recover", "POST", "/types/{type}/recover", "operate", "Look for stalled sagas now", "Recovery"),
    errors="404 413 422",
    body=Recovering,
)
STATS = Operation("stats", "GET", "/stats", "read", "Counts by type and status", "Stats")
BREAKERS = Operation("list_breakers", "GET", "/breakers", "read", "The circuit breakers", "Breakers", errors="422")
CLOSE_BREAKER = Operation(
    "close_breaker", "POST", "/breakers/{type}/{step}/close", "operate", "Close a circuit breaker", "Breaker"
)
OPENAPI = Operation("openapi", "GET", "/openapi.json", "read", "This description", "", errors="422")

OPERATIONS: tuple[Operation, ...] = (
    *(LIST, LOOK_UP, START, SHOW, CANCEL, AUDIT, VERIFY, RETRY, COMPENSATE, RESOLVE, SIGNAL, PURGE),
    *(SET_RECOVERY_ATTEMPTS, ATTENTION, TYPES, TYPE, CHANGE, RECOVER, STATS, BREAKERS, CLOSE_BREAKER),
    OPENAPI,
)
"""All but the route of public waits, which asks for no right."""

VERBS = {operation.name: operation for operation in OPERATIONS if operation.verb.help}
"""What operators do to one saga, by name; also to many where the row says to which."""
