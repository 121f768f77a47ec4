"""The engine: every part of a function, created on first use.

A module that a step does not need is imported in its property. So a function loads the parts that it uses. Its handler
names them in ``warm``, and loads them in Lambda's init phase.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from msgspec.structs import replace

from sagas.authoring.policies import SETTLE, AutoDisable
from sagas.engine.advance import Advancer
from sagas.engine.attempt.attempt import Attempt, AttemptServices
from sagas.engine.attempt.call import call_code
from sagas.engine.attempt.course import UNCHAINED, Chain
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
    from sagas.engine.attempt.coroutines import EventLoop
    from sagas.engine.children import Children
    from sagas.engine.observe.tracing import Tracer
    from sagas.engine.operate.auto_disable import AutoDisabler
    from sagas.engine.operate.breaker import Breakers
    from sagas.engine.operate.breaker_operations import BreakerOperations
    from sagas.engine.operate.callbacks import Callbacks
    from sagas.engine.operate.operations import Operations
    from sagas.engine.operate.pausing import Pausing
    from sagas.engine.operate.signals import Signals
    from sagas.engine.read.in_flight import InFlight
    from sagas.engine.read.overview import Overview
    from sagas.engine.read.reader import Reader
    from sagas.engine.read.statistics import Statistics
    from sagas.engine.start.blueprints import Blueprints
    from sagas.engine.start.starter import Starter
    from sagas.engine.supervise.codeless import CodelessAdvancer
    from sagas.engine.supervise.due_scan import Finder
    from sagas.engine.supervise.leftovers import LeftoverFinder
    from sagas.engine.supervise.purge import Purger
    from sagas.engine.supervise.recovery import RecoveryRun
    from sagas.engine.supervise.verify import Verifier
    from sagas.engine.worker import MakesAttempts, QueueProgress, Worker
    from sagas.store.inbox import Inbox
    from sagas.store.index.listing import Listing
    from sagas.store.index.search_keys import SearchKeys
    from sagas.store.joins import Joins
    from sagas.store.watermarks import Watermarks


@dataclass(frozen=True)
class Engine:
    """The parts of a function. They share one set of clients, and are created on first use.

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
        on_next_step: called with the message of each further step that an invocation runs.
        tracer: the object that makes spans; ``None`` if nothing is traced.
        every: seconds between two runs of the supervisor.
        callbacks: makes and reads callback URLs; ``None`` if the service has none.
        attempt: makes attempts. In a step's function, Powertools drives them.
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
    on_next_step: Callable[[Message], None] | None = None
    tracer: Tracer | None = None
    every: float = 60.0
    callbacks: Callbacks | None = None
    attempt: MakesAttempts = Attempt

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
        on_next_step: Callable[[Message], None] | None = None,
        attempt: MakesAttempts = Attempt,
    ) -> Self:
        """Return the parts as the environment of a Lambda function describes them."""
        missing = [name for name in ("SAGAS_CLASSES", "SAGAS_QUEUES") if not environment.get(name)]
        if missing:
            raise SagaError(f"the environment lacks {', '.join(missing)}")
        usual = environment.get("SAGAS_AUTO_DISABLE")
        classes = environment["SAGAS_CLASSES"]
        groups = dict[str, dict[str, str]]()
        if classes.startswith("@"):  # many types, listed in a file with the steps that share a queue
            path = Path(environment.get("LAMBDA_TASK_ROOT", "."), classes[1:])
            try:
                types = json.loads(path.read_text(encoding="utf-8"))
            except FileNotFoundError:
                raise SagaError(f"SAGAS_CLASSES names {path}, which does not exist") from None
            classes = json.dumps(types["classes"])
            groups = types["groups"]
        settle = float(environment.get("SAGAS_SETTLE", SETTLE))
        registry = Registry.load(classes, AutoDisable.parse(usual) if usual else None, settle)
        types = (saga.definition for saga in registry if saga.definition.has_code)
        steps = {definition.name: [step.name for step in definition.steps] for definition in types}
        routes = Routes.parse(environment["SAGAS_QUEUES"], steps, groups)
        settings = settings_from(environment)
        clock = SystemClock()
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
            on_next_step=on_next_step,
            tracer=tracer,
            every=float(environment.get("SAGAS_RECOVER_EVERY", 60)),
            callbacks=_callbacks(environment, settings, clock, observing),
            attempt=attempt,
        )

    def warm(self, *parts: str) -> None:
        """Create the clients of DynamoDB and SQS, the advancer and these parts ahead of the first use. Sends no
        request."""
        self.tables.connect()
        self.queues.connect()
        for part in ("advancer", *parts):
            getattr(self, part)

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
    def event_loop(self) -> EventLoop:
        """The event loop of ``async`` code, made by its first call."""
        from sagas.engine.attempt.coroutines import EventLoop

        return EventLoop()

    @cached_property
    def services(self) -> AttemptServices:
        """Services of an attempt."""
        gates: Gates = (PauseGate(self.pauses, self.control), *([self.breakers] if self._breaks else []))
        services = AttemptServices(
            self.control,
            self.journal,
            self.committer,
            partial(call_code, lambda result, context: self.event_loop.run(result, context)),
            self.clock,
            self.logger,
            self.queues.delay,
            self.clients,
            accept=lambda state, index, signal, stale: self.inbox.accept(state, index, signal, stale),
            gates=gates,
        )
        services = services if self.on_next_step is None else replace(services, on_next_step=self.on_next_step)
        return services if self.callbacks is None else replace(services, callback_url=self.callbacks.url)

    @cached_property
    def advancer(self) -> Advancer:
        """Advances sagas."""
        return Advancer(self.services, self.registry, self.sender, self.carry, self.queues)

    @cached_property
    def search_keys(self) -> SearchKeys:
        """Search keys."""
        from sagas.store.index.search_keys import SearchKeys

        return SearchKeys(self.tables, self.settings)

    @cached_property
    def blueprints(self) -> Blueprints:
        """Blueprints. Only functions that start sagas need these parts."""
        from sagas.engine.start.blueprints import Blueprints
        from sagas.store.types.blueprints import BlueprintItems

        return Blueprints(BlueprintItems(self.tables, self.settings), self.clock)

    @cached_property
    def reader(self) -> Reader:
        """Reads sagas."""
        from sagas.engine.read.reader import Reader
        from sagas.engine.read.remains import Remains

        return Reader(
            self.settings.service,
            self.registry,
            self.control,
            self.journal,
            self.listing,
            self.breakers,
            Remains(self.journal),
            self.pauses,
            self.search_keys,
            self.joins,
            lambda name: self.blueprints.started(name),
        )

    @cached_property
    def starter(self) -> Starter:
        """Starts sagas."""
        from sagas.engine.start.starter import Starter

        return Starter(
            self.settings.service,
            self.registry,
            self.control,
            self.journal,
            self.sender,
            self.clock,
            self.pauses,
            self.auto_disabler,
            self.search_keys,
            self.blueprints,
            carry=self.carry,
            headers=None if self.tracer is None else self.tracer.headers,
        )

    @cached_property
    def operations(self) -> Operations:
        """Operations on a saga."""
        from sagas.engine.operate.operations import Operations

        return Operations(self.reader, self.control, self.advancer)

    @cached_property
    def signals(self) -> Signals:
        """Accepts signals."""
        from sagas.engine.operate.signals import Signals

        return Signals(self.reader, self.inbox, self.advancer, self.queues)

    @cached_property
    def purger(self) -> Purger:
        """Purges sagas."""
        from sagas.engine.supervise.purge import Purger
        from sagas.store.journal.tombstones import Tombstones

        return Purger(
            self.control,
            self.journal,
            Tombstones(self.tables, self.settings, self.payloads),
            self.inbox,
            self.search_keys,
            self.joins,
            self.listing,
            self.reader,
            self.settings,
            self.clock,
            self.logger,
        )

    @cached_property
    def pausing(self) -> Pausing:
        """Pauses and resumes."""
        from sagas.engine.operate.pausing import Pausing

        return Pausing(
            self.pauses, self.registry, self.control, self.listing, self.advancer, self.auto_disabler, self.logger
        )

    @cached_property
    def recovery(self) -> RecoveryRun:
        """Recovers sagas."""
        from sagas.engine.supervise.due_scan import look_ahead
        from sagas.engine.supervise.recovery import RecoveryRun

        return RecoveryRun(
            self.advancer,
            self.control,
            self.listing,
            self.queues,
            self.watermarks,
            self.queues,
            self.pausing,
            look_ahead(self.every),
        )

    @cached_property
    def worker(self) -> Worker:
        """Handles messages."""
        from sagas.engine.worker import Worker

        return Worker(self.advancer, self.attempt, self.chain)

    @cached_property
    def queue_progress(self) -> QueueProgress:
        """Records the progress of the step's queue."""
        from sagas.engine.worker import QueueProgress

        return QueueProgress(lambda: self.watermarks, self.clock, self.routes.representative)

    @cached_property
    def watermarks(self) -> Watermarks:
        """The notes of how far queues have got."""
        from sagas.store.watermarks import Watermarks

        return Watermarks(self.tables)

    @cached_property
    def verifier(self) -> Verifier:
        """Verifies audit trails."""
        from sagas.engine.supervise.verify import Verifier

        return Verifier(self.control, self.journal, self.reader, self.clock, self.settings.shards)

    @cached_property
    def codeless_advancer(self) -> CodelessAdvancer:
        """Advances one saga."""
        from sagas.engine.supervise.codeless import CodelessAdvancer

        return CodelessAdvancer(self.advancer, self.control)

    @cached_property
    def children(self) -> Children:
        """Advances a saga with children."""
        from sagas.engine.children import Children
        from sagas.engine.start.children import ChildCreator

        creator = ChildCreator(
            self.registry,
            self.control,
            self.journal,
            self.clock,
            self.blueprints,
            self.carry,
            None if self.tracer is None else self.tracer.headers,
            self.search_keys,
        )
        return Children(self.advancer, self.control, self.joins, creator, self.sender, self.queues)

    @cached_property
    def finder(self) -> Finder:
        """Finds due sagas."""
        from sagas.engine.supervise.due_scan import Finder, look_ahead
        from sagas.store.schedule.scan_positions import ScanPositions

        ahead = look_ahead(self.every)
        return Finder(self.listing, ScanPositions(self.tables), self.queues, self.clock, self.pausing.shards, ahead)

    @cached_property
    def leftover_finder(self) -> LeftoverFinder:
        """Finds what purges cannot find. Only the rule for purges needs these parts."""
        from sagas.engine.supervise.leftovers import LeftoverFinder
        from sagas.store.journal.leftovers import Leftovers
        from sagas.store.schedule.leftover_scans import LeftoverScans

        leftovers = Leftovers(self.tables, self.settings, self.payloads, self.search_keys)
        return LeftoverFinder(leftovers, LeftoverScans(self.tables, self.settings), self.clock, self.logger)

    @cached_property
    def breaker_operations(self) -> BreakerOperations:
        """Operations on circuit breakers."""
        from sagas.engine.operate.breaker_operations import BreakerOperations

        return BreakerOperations(
            self.breakers, self.control, self.listing, self.advancer, self.registry, self.journal, self.logger
        )

    @cached_property
    def statistics(self) -> Statistics:
        """Counts sagas."""
        from sagas.engine.read.statistics import Statistics

        return Statistics(
            self.registry,
            self.control,
            self.listing,
            self.queues,
            self.pauses,
            self.breaker_operations,
            self.overview,
            self.clock,
        )

    @cached_property
    def overview(self) -> Overview:
        """What an operator has to know first."""
        from sagas.engine.read.overview import Overview
        from sagas.store.overview import OverviewItem

        return Overview(
            self.registry,
            self.control,
            self.listing,
            self.breakers,
            self.pauses,
            self.auto_disabler,
            OverviewItem(self.tables, self.settings),
            self.queues,
            self.clock,
            self.every,
        )

    @cached_property
    def in_flight(self) -> InFlight:
        """Groups sagas in flight."""
        from sagas.engine.read.in_flight import InFlight

        return InFlight(self.registry, self.control, self.listing, self.journal, self.blueprints)


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
