"""The parts that all functions share: types, store, queues, and the advancer.

A function's composition is a subclass that adds the parts which this function runs. Parts are created on first use. A
module that only few services need is imported in a property, so other functions do not load it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from sagas.authoring.policies import SETTLE, AutoDisable
from sagas.engine.advance import Advancer, MakesAttempts
from sagas.engine.attempt.attempt import Attempt, AttemptServices
from sagas.engine.attempt.course import UNCHAINED, Chain
from sagas.engine.attempt.runner import Runner
from sagas.engine.clock import Clock, SystemClock
from sagas.engine.committer import Committer
from sagas.engine.ports import CommitObserver, EngineObserver, Gates, MessageSender, NullObserver, PauseGate
from sagas.engine.registry import Registry
from sagas.errors import SagaError
from sagas.messaging.message import Message
from sagas.messaging.queues import Queues
from sagas.messaging.routes import Routes
from sagas.store.control.control import ControlItems
from sagas.store.journal.journal import Journal, Payloads
from sagas.store.pauses import Pauses
from sagas.store.tables import StoreSettings, Tables, tables_for

if TYPE_CHECKING:
    from sagas.engine.observe.tracing import Tracer
    from sagas.engine.operate.auto_disable import AutoDisabler
    from sagas.engine.operate.breaker import Breakers
    from sagas.engine.operate.callbacks import Callbacks
    from sagas.store.inbox import Inbox
    from sagas.store.index.listing import Listing
    from sagas.store.joins import Joins


@dataclass(frozen=True)
class Core:
    """The parts that every function needs. They share one set of clients.

    Args:
        registry: the saga types.
        settings: the settings of the store.
        routes: the queues.
        clock: the engine's clock.
        observer: called with every committed fact.
        logger: the engine's logger.
        clients: the function that makes the clients of ``ctx.client``. Default: boto3's.
        carry: whether messages contain small results.
        chain: the steps that one invocation of this function may run in a row.
        goes_on: called with the message of each further step that an invocation runs.
        tracer: the object that makes spans; ``None`` if nothing is traced.
        every: seconds between two runs of the supervisor.
        callbacks: makes and reads callback URLs; ``None`` if the service has none.
    """

    registry: Registry
    settings: StoreSettings
    routes: Routes
    clock: Clock = field(default_factory=SystemClock)
    observer: EngineObserver = field(default_factory=NullObserver)
    logger: logging.Logger = field(default_factory=lambda: logging.getLogger("sagas"))
    clients: Callable[[str], Any] | None = None
    carry: bool = True
    chain: Chain = UNCHAINED
    goes_on: Callable[[Message], None] | None = None
    tracer: Tracer | None = None
    every: float = 60.0
    callbacks: Callbacks | None = None

    def __post_init__(self) -> None:
        owners = (saga.definition.name for saga in self.registry if saga.definition.orphans is not None)
        never_expiring = self.settings.never_expiring | frozenset(owners)
        lanes = {saga.definition.name: saga.lanes for saga in self.registry}
        object.__setattr__(self, "settings", replace(self.settings, never_expiring=never_expiring))
        object.__setattr__(self, "routes", replace(self.routes, lanes=lanes))

    @classmethod
    def from_environment(
        cls,
        environment: Mapping[str, str],
        observer: EngineObserver | None = None,
        logger: logging.Logger | None = None,
        tracer: Tracer | None = None,
        goes_on: Callable[[Message], None] | None = None,
    ) -> Self:
        """Return the parts as the environment of a Lambda function describes them."""
        missing = [name for name in ("SAGAS_CLASSES", "SAGAS_QUEUES") if not environment.get(name)]
        if missing:
            raise SagaError(f"the environment lacks {', '.join(missing)}")
        usual = environment.get("SAGAS_AUTO_DISABLE")
        classes, groups = environment["SAGAS_CLASSES"], dict[str, dict[str, str]]()
        if classes.startswith("@"):  # many types, listed in a file with the steps that share a queue
            path = Path(environment.get("LAMBDA_TASK_ROOT", "."), classes[1:])
            try:
                types = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise SagaError(f"SAGAS_CLASSES names {path}, which does not exist") from None
            classes, groups = json.dumps(types["classes"]), types["groups"]
        settle = float(environment.get("SAGAS_SETTLE", SETTLE))
        registry = Registry.load(classes, AutoDisable.parse(usual) if usual else None, settle)
        types = (saga.definition for saga in registry if saga.definition.has_code)
        steps = {definition.name: [step.name for step in definition.steps] for definition in types}
        routes = Routes.parse(environment["SAGAS_QUEUES"], steps, groups)
        settings, clock = settings_from(environment), SystemClock()
        observing = observer or NullObserver()
        return cls(
            registry,
            settings,
            routes,
            clock=clock,
            observer=observing,
            logger=logger or logging.getLogger("sagas"),
            # Payloads that are encrypted in tables and bucket must not be readable in queues.
            carry=environment.get("SAGAS_CARRY_INPUTS") != "0" and not environment.get("SAGAS_PAYLOAD_KEY"),
            chain=Chain.parse(environment.get("SAGAS_CHAIN", "")),
            goes_on=goes_on,
            tracer=tracer,
            every=float(environment.get("SAGAS_RECOVER_EVERY", 60)),
            callbacks=_callbacks(environment, settings, clock, observing),
        )

    def connect(self) -> None:
        """Create the clients of DynamoDB and SQS, and the advancer, ahead of the first use. Sends no request."""
        self.tables.connect()
        self.queues.connect()
        _ = self.advancer

    @cached_property
    def tables(self) -> Tables:
        """The models of the tables."""
        return tables_for(self.settings)

    @cached_property
    def payloads(self) -> Payloads:
        """Large payloads."""
        return Payloads(self.settings)

    @cached_property
    def control(self) -> ControlItems:
        """The control items."""
        return ControlItems(self.tables, self.settings)

    @cached_property
    def journal(self) -> Journal:
        """The journals."""
        return Journal(self.tables, self.payloads)

    @cached_property
    def inbox(self) -> Inbox:
        """Accepted signals."""
        from sagas.store.inbox import Inbox

        return Inbox(self.tables, self.settings, self.payloads)

    @cached_property
    def joins(self) -> Joins:
        """Outcomes of children."""
        from sagas.store.joins import Joins

        return Joins(self.tables, self.settings)

    @cached_property
    def pauses(self) -> Pauses:
        """Pauses, and the service that owns the tables."""
        return Pauses(self.tables, self.settings, self.clock.now, self.clock.new_owner, self.observer.wrong_tables)

    @cached_property
    def queues(self) -> Queues:
        """The queues."""
        return Queues(self.routes, self.settings.region, self.settings.endpoint_url)

    @cached_property
    def sender(self) -> MessageSender:
        """The queues, with a span per message if sagas are traced."""
        if self.tracer is None:
            return self.queues
        from sagas.engine.observe.tracing import TracedSender

        return TracedSender(self.queues, self.routes, self.journal, self.tracer)

    @cached_property
    def listing(self) -> Listing:
        """Lists of sagas. A step's function needs this part only if its saga type declares ``auto_disable``."""
        from sagas.store.index.listing import Listing

        return Listing(self.tables, self.settings)

    @cached_property
    def auto_disabler(self) -> AutoDisabler:
        """Counts consecutive failed sagas."""
        from sagas.engine.operate.auto_disable import AutoDisabler
        from sagas.store.types.streaks import Streaks

        streaks = Streaks(self.tables)
        return AutoDisabler(self.registry, streaks, self.listing, self.logger, self.observer)

    @cached_property
    def breakers(self) -> Breakers:
        """The circuit breakers."""
        from sagas.engine.operate.breaker import Breakers
        from sagas.store.types.breakers import BreakerItems

        items = BreakerItems(self.tables, self.settings)
        return Breakers(items, self.registry, self.clock, self.logger, self.observer)

    @cached_property
    def _breaks(self) -> bool:
        """Whether a step declares a circuit breaker."""
        return any(step.circuit_breaker for saga in self.registry for step in saga.definition.steps)

    @cached_property
    def committer(self) -> Committer:
        """Makes facts permanent."""
        observers: list[CommitObserver] = [self.breakers] if self._breaks else []
        observers.append(self.observer)
        if any(saga.definition.auto_disable for saga in self.registry):
            observers.append(self.auto_disabler)
        if self.settings.joins_table:
            from sagas.engine.joining import JoinObserver

            observers.append(JoinObserver(self.control, self.joins, self.queues, self.logger))
        return Committer(self.control, self.journal, self.clock, tuple(observers), lambda: self.inbox)

    @cached_property
    def services(self) -> AttemptServices:
        """Services of an attempt."""
        gates: Gates = (PauseGate(self.pauses, self.control), *([self.breakers] if self._breaks else []))
        services = AttemptServices(
            self.control,
            self.journal,
            self.committer,
            Runner(),
            self.clock,
            self.logger,
            self.queues.delay,
            self.clients,
            accept=lambda state, index, signal, stale: self.inbox.accept(state, index, signal, stale),
            gates=gates,
        )
        services = services if self.goes_on is None else replace(services, goes_on=self.goes_on)
        return services if self.callbacks is None else replace(services, callback_url=self.callbacks.url)

    @cached_property
    def attempts(self) -> MakesAttempts:
        """Makes the attempts."""
        return Attempt

    @cached_property
    def advancer(self) -> Advancer:
        """Advances sagas."""
        return Advancer(self.services, self.registry, self.sender, self.attempts, self.carry, self.chain, self.queues)


def settings_from(environment: Mapping[str, str]) -> StoreSettings:
    """Read the settings of the store."""
    required = ("SAGAS_SERVICE", "SAGAS_TABLE", "SAGAS_AUDIT_TABLE")
    missing = [name for name in required if not environment.get(name)]
    if missing:
        raise SagaError(f"the environment lacks {', '.join(missing)}")
    service, sagas_table, audit_table = (environment[name] for name in required)
    usual = StoreSettings(service, sagas_table, audit_table)
    return replace(
        usual,
        payload_bucket=environment.get("SAGAS_PAYLOAD_BUCKET", ""),
        payload_limit=int(environment.get("SAGAS_PAYLOAD_LIMIT", usual.payload_limit)),
        shards=int(environment.get("SAGAS_SHARDS", usual.shards)),
        retention=float(environment.get("SAGAS_RETENTION", usual.retention)),
        key_retention=float(environment.get("SAGAS_KEY_RETENTION", usual.key_retention)),
        joins_table=environment.get("SAGAS_JOINS_TABLE", ""),
        payload_key=environment.get("SAGAS_PAYLOAD_KEY", ""),
        region=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        endpoint_url=environment.get("AWS_ENDPOINT_URL"),
    )


def _callbacks(
    environment: Mapping[str, str], settings: StoreSettings, clock: Clock, observer: EngineObserver
) -> Callbacks | None:
    url = environment.get("SAGAS_CALLBACK_URL")
    if not url:
        return None
    from sagas.engine.operate.callbacks import Callbacks
    from sagas.store.callback_keys import CallbackKeys

    secret = environment["SAGAS_CALLBACK_SECRET"]
    region = settings.region
    endpoint_url = settings.endpoint_url
    return Callbacks(url, CallbackKeys(secret, clock.now, region, endpoint_url, observer.callback_key_too_short))
