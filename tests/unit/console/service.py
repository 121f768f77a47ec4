"""A service in memory, which the console takes for a ``SagaClient``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from sagas.client import DeadLetter
from sagas.errors import Conflict, NotFound, SagaError, StateChanged
from sagas.operations import Operation
from tests.unit.client.stub import BEGAN, SEQ, a_saga, a_step, an_overview, attention

NOW = 1_795_254_540.0
"""2026-11-21T09:49:00Z, ten seconds after the sagas of the stub began."""
HOSTILE = "</script><img src=x onerror=\"document.title='got'\"><script>document.title='got'</script>{{7*7}}"


def numbered(number: int) -> str:
    """Return the id of a saga by its number."""
    return f"01a1fd82-30a8-780f-adb2-{number:012x}"


def row_of(number: int) -> str:
    """Return what the form of a list sends for a saga."""
    return f"create-zip/{numbered(number)}/{SEQ}"


def an_entry(seq: int, action: str, step: str | None = None, **fields: Any) -> dict[str, Any]:
    """Return an audit entry as the API shows it."""
    known: dict[str, Any] = {
        "saga_id": numbered(1), "seq": seq, "at": BEGAN, "type": "create-zip", "action": action, "step": step,
        "attempt": 1 if step else None, "status": "RUNNING", "actor": "worker", "correlation_id": "", "trace_id": None,
        "details": {},
    }  # fmt: skip
    return known | fields


def a_pause(**fields: Any) -> dict[str, Any]:
    """Return a pause of a saga type."""
    pause = {"step": None, "saga_id": None, "starts_only": False, "starts": False, "undos": False}
    return {**pause, "at": BEGAN, "by": "ann", "reason": None, "until": None, **fields}


def a_type(name: str = "create-zip", **fields: Any) -> dict[str, Any]:
    """Return a saga type as the API shows it."""
    steps: list[dict[str, Any]] = [
        {
            "name": step,
            "undo": undo,
            "max_retries": 3,
            "on_exhausted": "COMPENSATE",
            "timeout": 20.0,
            "retired": False,
        }
        for step, undo in (("check", None), ("upload", "remove"), ("announce", None))
    ]
    known: dict[str, Any] = {
        "type": name, "version": "1", "description": "Zips.", "active": True, "paused": False, "reason": None,
        "failures": 0, "pauses": [], "cancellable": True, "find_by": {},
        "request": {"type": "object", "properties": {"bucket": {"type": "string"}}, "required": ["bucket"]},
        "steps": steps,
    }  # fmt: skip
    return known | fields


def in_flight() -> dict[str, Any]:
    """Return the sagas in flight of two releases, as the client shows them. The second one is deployed."""

    def group(blueprint: str, status: str, cursor: int, steps: str, count: int, number: int) -> dict[str, Any]:
        place = {"blueprint": blueprint, "status": status, "cursor": cursor, "steps": steps}
        return place | {"count": count, "oldest": BEGAN, "examples": [numbered(number)]}

    old: list[dict[str, Any]] = [
        *({"name": "check"}, {"name": "upload", "undo": []}, {"name": "approve", "waits_for": "signal"}),
        *({"name": "announce"}, {"name": "log", "retired": True}),
    ]
    new: list[dict[str, Any]] = [{"name": "check", "undo": []}, {"name": "upload"}, {"name": "approve"}]
    blueprints = {"old": {"version": "1", "steps": old}, "new": {"version": "2", "steps": new}}
    groups = [
        *(group("old", "PENDING", 0, "PPPP", 40, 7), group("old", "WAITING", 2, "CCWP", 2, 8)),
        group("new", "DEAD_LETTERED", 2, "CCF", 3, 9),
    ]
    return {"blueprints": blueprints, "deployed": "new", "groups": groups, "undeployed": [], "cursor": None}


ERROR = {"type": "NotFound", "message": "no topic"}


def dead(number: int = 1, *, error: Mapping[str, str] = ERROR, **fields: Any) -> dict[str, Any]:
    """Return a saga that is DEAD_LETTERED."""
    steps = [a_step("check"), a_step("upload"), a_step("announce", "FAILED", attempts=4, error={**error})]
    cause = {"step": "announce", **error}
    saga = a_saga("DEAD_LETTERED", saga_id=numbered(number), steps=steps, error=cause)
    return saga | {"attention": attention("exhausted", cause)} | fields


class FakeService:
    """Sagas in memory; ``asked`` has each call, ``refuses`` and ``away`` what is raised."""

    region = "eu-central-1"

    def __init__(self, sagas: Iterable[dict[str, Any]] = ()) -> None:
        self.sagas = {saga["saga_id"]: saga for saga in sagas}
        self.entries: list[dict[str, Any]] = [an_entry(1, "SagaStarted")]
        self.known_types = [a_type()]
        self.letters: list[DeadLetter] = []
        self.known_breakers: list[dict[str, Any]] = []
        self.known_in_flight: dict[str, Any] = {}
        self.key = ""
        self.at_least = False
        self.now = "2026-11-21T09:49:00.000Z"
        self.rejected = 0
        self.asked: list[tuple[Any, ...]] = []
        self.refuses: dict[str, SagaError] = {}
        self.away: SagaError | None = None

    def _did(self, *call: Any) -> None:
        self.asked.append(call)
        if self.away is not None:
            raise self.away
        if (error := self.refuses.get(call[0])) is not None:
            raise error

    def did(self) -> list[tuple[Any, ...]]:
        """Return the calls that change something."""
        reading = (
            *("show", "list", "look_up", "attention", "incidents", "audit", "types", "breakers", "count_letters"),
            *("stats", "sweeps", "in_flight", "overview"),
        )
        return [call for call in self.asked if call[0] not in reading]

    def show(self, name: str, saga_id: str) -> Any:
        self._did("show", name, saga_id)
        saga = self.sagas.get(saga_id)
        if saga is None or saga["type"] != name:
            raise NotFound(f"no saga with id {saga_id} (type {name})")
        return saga

    def list(
        self,
        type: str | None = None,
        status: str | None = None,
        *,
        limit: int = 20,
        cursor: str | None = None,
        parent: str | None = None,
        since: str | None = None,
        until: str | None = None,
        find: dict[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> Any:
        told = [one for one in (parent, since, until, find, idempotency_key) if one]
        self._did("list", type, status, *told)
        if idempotency_key is not None:
            return {"sagas": [saga for saga in self.sagas.values() if idempotency_key == self.key], "cursor": None}
        fitting = [
            saga
            for saga in self.sagas.values()
            if type in (None, saga["type"])
            and status in (None, saga["status"])
            and parent in (None, saga.get("parent", {}).get("saga_id"))
        ]
        first = int(cursor or 0)
        more = str(first + limit) if first + limit < len(fitting) else None
        return {"sagas": fitting[first : first + limit], "cursor": more}

    def look_up(self, saga_id: str) -> Any:
        self._did("look_up", saga_id)
        found = [saga for one, saga in self.sagas.items() if one.startswith(saga_id)]
        if len(found) != 1:
            raise Conflict("not one saga begins so")
        return found[0]

    def stats(self, name: str | None = None) -> Any:
        self._did("stats", name)
        raise NotFound("nothing was counted")

    def sweeps(self) -> Any:
        self._did("sweeps")
        return []

    def caller(self) -> str:
        return "ann"

    def incidents(self, name: str | None = None) -> Any:
        self._did("incidents")
        found = dict[tuple[Any, ...], dict[str, Any]]()
        for saga in self.sagas.values():
            if why := saga["attention"]:
                key = {"type": saga["type"], **{part: why[part] for part in ("step", "code", "error_type")}}
                seen = {"count": 0, "at_least": False, "first_seen": why["since"], "last_seen": why["since"]}
                incident = found.setdefault((*key.values(),), key | seen)
                incident["count"] = min(incident["count"] + 1, 1_000)
                incident["at_least"] = incident["count"] == 1_000
                incident["last_seen"] = max(incident["last_seen"], why["since"])
        return {"incidents": [*found.values()], "at_least": self.at_least}

    def attention(
        self, name: str | None = None, *, limit: int = 20, cursor: str | None = None, **kind: str | None
    ) -> Any:
        self._did("attention")
        given = {"error_type" if part == "error" else part: value for part, value in kind.items()}
        wanted = {part: value or None for part, value in given.items() if value is not None}
        found = [
            saga
            for saga in self.sagas.values()
            if name in (None, saga["type"]) and saga["attention"] and wanted.items() <= saga["attention"].items()
        ]
        first = int(cursor or 0)
        more = str(first + limit) if first + limit < len(found) else None
        return {"sagas": found[first : first + limit], "cursor": more}

    def overview(self, *, now: bool = False) -> Any:
        self._did("overview", now)
        listed = [saga for saga in self.sagas.values() if saga["attention"]]
        counts = Counter(saga["type"] for saga in listed)
        types = [{"type": name, "count": count, "continuing": 0, "at_least": False} for name, count in counts.items()]
        tag = str([(saga["saga_id"], saga["attention"]) for saga in listed])
        late = [saga for saga in self.sagas.values() if saga.get("lease") and saga["lease"]["expires_at"] < self.now]
        waits = [saga["saga_id"] for saga in self.sagas.values() if saga["status"] == "WAITING"]
        return an_overview(
            attention={"count": len(listed), "at_least": self.at_least, "types": types, "tag": tag},
            open={"due": 0, "waiting": len(waits), "paused": 0, "at_least": False, "tag": str(waits)},
            overdue={"count": len(late), "at_least": False, "sagas": [*map(_overdue, late[:20])]},
            breakers=[breaker for breaker in self.known_breakers if breaker["state"] != "closed"],
            pauses=[pause | {"type": each["type"]} for each in self.known_types for pause in each["pauses"]],
        )

    def audit(self, name: str, saga_id: str) -> Any:
        self._did("audit", name, saga_id)
        return iter(self.entries)

    def types(self) -> Any:
        self._did("types")
        return self.known_types

    def in_flight(self, name: str) -> Any:
        self._did("in_flight", name)
        return self.known_in_flight

    def breakers(self) -> Any:
        self._did("breakers")
        return self.known_breakers

    def count_letters(self, name: str) -> int:
        self._did("count_letters", name)
        if name == "commands" and not self.rejected:
            raise NotFound("this service takes no commands")
        return len(self.letters) if name != "commands" else self.rejected

    def dead_letters(self, name: str, limit: int = 100) -> Any:
        self._did("dead_letters", name)
        return self.letters

    def delete_letter(self, name: str, message_id: str) -> DeadLetter:
        self._did("delete_letter", name, message_id)
        return self.letters.pop()

    def _named(self, saga_id: str, seq: int) -> None:
        """Refuse a call that names another state of a saga."""
        saga = self.sagas.get(saga_id)
        if saga is not None and saga["seq"] != seq:
            raise StateChanged(f"seq {seq} is not the saga's last audit entry", saga)

    def retry(self, name: str, saga_id: str, reason: str = "", *, seq: int) -> Any:
        self._named(saga_id, seq)
        self._did("retry", saga_id, reason)

    def compensate(self, name: str, saga_id: str, reason: str = "", *, seq: int) -> Any:
        self._named(saga_id, seq)
        self._did("compensate", saga_id, reason)

    def cancel(self, name: str, saga_id: str, reason: str = "") -> Any:
        self._did("cancel", saga_id, reason)
        if self.sagas[saga_id]["status"] == "COMPLETED":
            raise Conflict("the saga is COMPLETED")

    def resolve(self, name: str, saga_id: str, reason: str, action: str = "", steps: Any = (), *, seq: int) -> Any:
        self._named(saga_id, seq)
        self._did("resolve", saga_id, reason, action, [*steps])

    def recover(self, *, type: str | None = None, saga_id: str | None = None) -> Any:
        self._did("recover", saga_id)

    def rerun(self, name: str, saga_id: str, key: str | None = None) -> Any:
        self._did("rerun", saga_id)
        return self.sagas[saga_id]

    def take_letters(self, operation: Operation, name: str, saga_ids: Collection[str]) -> str:
        self.letters = [each for each in self.letters if each.saga_id not in saga_ids]
        return ""

    def redrive(self, name: str) -> str:
        self._did("redrive", name)
        return "handle"

    def signal(self, name: str, saga_id: str, step: str, value: Any) -> Any:
        self._did("signal", saga_id, step, value)

    def start(self, name: str, request: Any, *, key: str | None = None) -> Any:
        self._did("start", name, request, key)
        return next(iter(self.sagas.values()))

    def pause(self, name: str, reason: str, **options: Any) -> Any:
        self._did("pause", name, reason, *(option for option, value in options.items() if value))

    def resume(self, name: str, **options: Any) -> Any:
        self._did("resume", name, *filter(None, options.values()))

    def close_breaker(self, saga: str, step: str) -> Any:
        self._did("close_breaker", saga, step)

    def sweep(self, name: str, *, dry_run: bool = False, force: bool = False) -> Any:
        self._did("sweep", name, dry_run, force)
        counts = dict.fromkeys(("unreferenced", "kept", "unknown", "deleted", "archived", "handled", "errors"), 0)
        return {
            **counts, "listed": 4, "orphans": 1, "young": 2, "foreign": 1, "prefix": "zips/", "bucket": "b",
            "action": "delete", "dry_run": dry_run, "sample": {"orphans": ["zips/x"]}, "stopped": "", "error": "",
        }  # fmt: skip


def _overdue(saga: Mapping[str, Any]) -> dict[str, Any]:
    """Return a saga as the overview lists it if it should have been recovered."""
    parts = {part: saga[part] for part in ("type", "saga_id", "seq", "status")}
    return parts | {"due_since": saga["lease"]["expires_at"], "lease_expires_at": saga["lease"]["expires_at"]}


def a_letter(**fields: Any) -> DeadLetter:
    """Return a message that no function could read."""
    known: dict[str, Any] = {
        "saga": "", "saga_id": "", "step": "", "message_id": "m-1", "receives": 15, "sent_at": BEGAN,
        "body": "no JSON <b>", "attributes": {"who": "x"}, "source": "arn:aws:sqs:r:1:q",
        "reason": "the message's body is not JSON",
    }  # fmt: skip
    return DeadLetter(**(known | fields))
