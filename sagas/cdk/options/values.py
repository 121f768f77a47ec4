"""The values of a service's options: for its tables, archive, releases, events, traces and access logs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, cast
from urllib.parse import urlsplit

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_s3 as s3
from constructs import Construct

from sagas.cdk.options.checks import of_kind, within
from sagas.errors import DefinitionError

_NEWBORN_READS = 12_000
_NEWBORN_WRITES = 4_000
"""The read and write units per second of any new table. DynamoDB refuses lower values."""
_MOST = 10_000_000


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Capacity and storage of a table that the service creates.

    Args:
        warm_reads: read units per second that the table and its indexes support at once, 12,000 or more. You pay only
            when you raise the number. AWS never lowers it.
        warm_writes: the same for write units, 4,000 or more.
        max_writes: maximum write units per second, to limit the cost of runaway sagas. DynamoDB refuses writes above
            the limit. They are retried, so sagas slow down, and starts return 503.
        infrequent_access: whether storage costs less and each request more. This class suits audit trails kept for
            months.

    Raises:
        DefinitionError: DynamoDB would refuse a value.
    """

    warm_reads: int | None = None
    warm_writes: int | None = None
    max_writes: int | None = None
    infrequent_access: bool = False

    def __post_init__(self) -> None:
        within("TableOptions", "warm_reads", self.warm_reads, _NEWBORN_READS, _MOST)
        within("TableOptions", "warm_writes", self.warm_writes, _NEWBORN_WRITES, _MOST)
        within("TableOptions", "max_writes", self.max_writes, 1, _MOST)
        of_kind("TableOptions", "infrequent_access", self.infrequent_access, bool)
        if self.max_writes is not None and self.max_writes < (self.warm_writes or 0):
            raise DefinitionError("TableOptions: max_writes must not be less than warm_writes")


@dataclass(frozen=True, slots=True)
class Archive:
    """A copy of the audit trail in S3, safe from principals that can write to the tables. The copy has no payloads.

    Args:
        bucket: your own bucket. Default: the service creates a versioned bucket, to which ``removal_policy`` applies.
        lock: how long S3 refuses to overwrite or delete objects (Object Lock), in whole days. Default: no lock.
            Your own bucket keeps its own settings.
        compliance: whether the lock binds everybody, including the account's owner, until it expires. If False,
            principals with ``s3:BypassGovernanceRetention`` can bypass it.

    Raises:
        DefinitionError: ``lock`` is out of range, is combined with ``bucket``, or is missing with ``compliance``.
    """

    bucket: s3.IBucket | s3.BucketBase | None = None
    lock: timedelta | None = None
    compliance: bool = False

    def __post_init__(self) -> None:
        lock = cast("object", self.lock)
        if lock is not None and not isinstance(lock, timedelta):
            raise DefinitionError(f"Archive: lock must be a timedelta, not {lock!r}")
        seconds = None if self.lock is None else self.lock.total_seconds()
        within("Archive", "lock (in seconds)", seconds, 86_400, 100 * 365 * 86_400)
        if self.lock is not None and self.lock % timedelta(days=1):
            raise DefinitionError(f"Archive: lock must be whole days, not {self.lock}")
        if self.lock is not None and self.bucket is not None:
            raise DefinitionError("Archive: lock cannot be used with bucket; set Object Lock on your bucket")
        if self.compliance and self.lock is None:
            raise DefinitionError("Archive: compliance requires lock")


AnyAlarm = cloudwatch.IAlarm | cloudwatch.Alarm
_MOST_ALARMS = 6
"""CodeDeploy allows ten alarms per function, and the service needs four of them."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """How the alias of each function moves to new code. Use :meth:`canary`, :meth:`linear` or :meth:`all_at_once`.

    Args:
        kind: ``canary``, ``linear`` or ``all_at_once``.
        percent: percentage of invocations that move to the new code first, or with each increment.
        minutes: minutes before the other invocations move, or between increments.
        alarms: additional alarms that roll a deployment back, at most six. The service's own alarms watch the function
            for errors, and its saga for failing records, failed undos and sagas that need attention. None of them fires
            because a step raises: the step is retried, then the saga is undone.

    Raises:
        DefinitionError: CodeDeploy would refuse a value.
    """

    kind: Literal["canary", "linear", "all_at_once"]
    percent: int = 100
    minutes: int = 0
    alarms: Sequence[AnyAlarm] = ()

    def __post_init__(self) -> None:
        if self.kind != "all_at_once":
            within(f"Deployment.{self.kind}", "percent", self.percent, 1, 99)
            # CodeDeploy's limit: a deployment can last two days.
            within(f"Deployment.{self.kind}", "minutes", self.minutes, 1, 2_880 // self._increments)
        if len(self.alarms) > _MOST_ALARMS:
            raise DefinitionError(f"Deployment: alarms: at most {_MOST_ALARMS} are allowed, not {len(self.alarms)}")

    @property
    def _increments(self) -> int:
        return 1 if self.kind == "canary" else -(-100 // self.percent)

    @property
    def total_minutes(self) -> int:
        """Minutes until all invocations have moved."""
        return self.minutes * self._increments

    @classmethod
    def canary(cls, *, percent: int, minutes: int, alarms: Sequence[AnyAlarm] = ()) -> Deployment:
        """Return a deployment that moves ``percent`` of invocations first, and all others ``minutes`` later."""
        return cls("canary", percent, minutes, alarms)

    @classmethod
    def linear(cls, *, percent: int, minutes: int, alarms: Sequence[AnyAlarm] = ()) -> Deployment:
        """Return a deployment that moves another ``percent`` of invocations every ``minutes`` minutes."""
        return cls("linear", percent, minutes, alarms)

    @classmethod
    def all_at_once(cls, *, alarms: Sequence[AnyAlarm] = ()) -> Deployment:
        """Return a deployment in which CodeDeploy moves all invocations at once, unless an alarm has fired."""
        return cls("all_at_once", alarms=alarms)


AnyBus = events.IEventBus | events.EventBus


@dataclass(frozen=True, slots=True)
class SagaEvents:
    """The events that a service publishes, and their bus.

    Args:
        bus: the bus for the events. Default: the service creates a bus.
        steps: whether events of steps are published, too. The outbox then reads each committed entry.
        payloads: whether events contain requests and results, as the API shows them, unless these are too large.
    """

    bus: AnyBus | None = None
    steps: bool = False
    payloads: bool = False

    @classmethod
    def of(cls, service: str, option: object) -> SagaEvents | None:
        """Return the value of a service's option ``events`` as :class:`SagaEvents`; ``None`` if it is not set.

        Args:
            service: the service's name, for the error message.
            option: a bus, a :class:`SagaEvents`, or ``None``.

        Raises:
            DefinitionError: the option has the wrong type.
        """
        match option:
            case None | SagaEvents():
                return option
            case events.EventBus() | Construct():
                return cls(bus=cast("AnyBus", option))
            case _:
                raise DefinitionError(f"{service}: events must be an EventBus or SagaEvents, not {option!r}")


AccessLog = Literal["off", "account", "role"]
_EXPORTER = "OTEL_TRACES_EXPORTER"


@dataclass(frozen=True, slots=True)
class OpenTelemetry:
    """The collector and the sampling of spans: ``SagaService(environment=OpenTelemetry("http://...").environment)``.

    Args:
        endpoint: the collector's URL, for OTLP over HTTP; spans go to ``/v1/traces`` below it. If the collector needs a
            key, also set ``OTEL_EXPORTER_OTLP_HEADERS``, which readers of the function's configuration can see.
        sample: the share of sagas that are traced, 0 to 1. A caller's own decision takes precedence.

    Raises:
        DefinitionError: a value is out of range.
    """

    endpoint: str
    sample: float = 1.0

    def __post_init__(self) -> None:
        within("OpenTelemetry", "sample", self.sample, 0, 1)
        parts = urlsplit(self.endpoint)
        # Accept a token: only the deployment knows its value.
        if "${Token" not in self.endpoint and (parts.scheme not in ("http", "https") or not parts.netloc):
            raise DefinitionError(f"OpenTelemetry: endpoint must be an http or https URL, not {self.endpoint!r}")

    @property
    def environment(self) -> dict[str, str]:
        """The standard variables; add others, such as ``OTEL_RESOURCE_ATTRIBUTES``, as needed."""
        return {
            _EXPORTER: "otlp",
            "OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint,
            "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
            "OTEL_TRACES_SAMPLER_ARG": f"{self.sample:g}",
        }


def needed_extras(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names of the library's extras that functions with these variables need."""
    return ("otel",) if environment.get(_EXPORTER, "none").strip().lower() not in ("", "none") else ()


@dataclass(frozen=True, slots=True)
class AccessLogs:
    """What is logged of calls of the API, and of requests to the buckets that the service creates.

    Args:
        api: whether and by which role the API logs calls, as ``access_log`` without this class.
        execution: whether API Gateway also logs the errors of its own execution, without bodies. It creates the log
            group ``API-Gateway-Execution-Logs_ID/v1`` itself, without a retention or your key. Needs ``api``.
        bucket: your bucket for the access logs of the service's buckets, below the service's name. S3 can write only
            to one that it encrypts with its own keys. The policy of an imported bucket must let S3 write.

    Raises:
        DefinitionError: ``execution`` without ``api``.
    """

    api: AccessLog = "off"
    execution: bool = False
    bucket: s3.IBucket | s3.BucketBase | None = None

    def __post_init__(self) -> None:
        if self.execution and self.api == "off":
            raise DefinitionError('AccessLogs: execution needs a role: set api="account" or api="role"')
