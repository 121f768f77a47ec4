"""Putting the parts together, from a function's environment or from explicit names."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sagas.authoring.policies import AutoDisable
from sagas.engine.advance import Advancer
from sagas.engine.attempt.attempt import AttemptServices
from sagas.engine.attempt.course import UNCHAINED, Chain
from sagas.engine.attempt.idempotency import IdempotentAttempt
from sagas.engine.attempt.runner import Runner
from sagas.engine.children.children import Children
from sagas.engine.children.joining import JoinObserver
from sagas.engine.clock import Clock, SystemClock
from sagas.engine.committer import Committer
from sagas.engine.observe.tracing import TracedSender, Tracer, traced_attempts
from sagas.engine.operate.auto_disable import AutoDisabler
from sagas.engine.operate.breaker import Breakers
from sagas.engine.operate.breaker_operations import BreakerOperations
from sagas.engine.operate.callbacks import Callbacks
from sagas.engine.operate.operations import Operations
from sagas.engine.operate.pausing import Parking, Pausing
from sagas.engine.operate.signals import Signals
from sagas.engine.ports import EngineObserver, NullObserver
from sagas.engine.read.reader import Reader
from sagas.engine.read.remains import Remains
from sagas.engine.read.statistics import Statistics
from sagas.engine.registry import Registry
from sagas.engine.start.births import Births
from sagas.engine.start.starter import Starter
from sagas.engine.supervise.finding import Finder, look_ahead
from sagas.engine.supervise.lanes import LaneNotes
from sagas.engine.supervise.looking import Looker
from sagas.engine.supervise.purge import Purger
from sagas.engine.supervise.recovery import Recovery
from sagas.engine.supervise.verify import Verifier
from sagas.engine.worker import Worker
from sagas.errors import SagaError
from sagas.messaging.message.message import Message
from sagas.messaging.queues import Queues
from sagas.messaging.routes import Routes
from sagas.store.callback_keys import CallbackKeys
from sagas.store.children.joins import Joins
from sagas.store.control.control import ControlItems
from sagas.store.index.findings import Findings
from sagas.store.index.listing import Listing
from sagas.store.journal.journal import Journal
from sagas.store.journal.payloads import Payloads
from sagas.store.journal.tombstones import Tombstones
from sagas.store.schedule.hand_outs import HandOuts
from sagas.store.schedule.lanes import Watermarks
from sagas.store.settings import StoreSettings
from sagas.store.signals.inbox import Inbox
from sagas.store.tables import Tables, tables_for
from sagas.store.types.breakers import BreakerItems
from sagas.store.types.pauses import Pauses
from sagas.store.types.streaks import Streaks


@dataclass(frozen=True, slots=True)
class Engine:
    """One deployment's parts, sharing one set of clients."""

    registry: Registry
    control: ControlItems
    journal: Journal
    queues: Queues
    services: AttemptServices
    worker: Worker
    starter: Starter
    reader: Reader
    operations: Operations
    signals: Signals
    recovery: Recovery
    looker: Looker
    purger: Purger
    verifier: Verifier
    finder: Finder
    pauses: Pauses
    findings: Findings
    pausing: Pausing
    auto_disabler: AutoDisabler
    breakers: Breakers
    lanes: LaneNotes
    breaker_operations: BreakerOperations
    children: Children
    callbacks: Callbacks | None
    statistics: Statistics
    clock: Clock
    tables: Tables

    def connect(self) -> None:
        """Make the clients of DynamoDB and SQS, which the first requests do otherwise; no request is sent."""
        self.tables.connect()
        self.queues.connect()


def build_engine(
    registry: Registry,
    settings: StoreSettings,
    routes: Routes,
    *,
    clock: Clock | None = None,
    observer: EngineObserver | None = None,
    logger: logging.Logger | None = None,
    connect: Callable[[str], Any] | None = None,
    carry: bool = True,
    chain: Chain = UNCHAINED,
    goes_on: Callable[[Message], None] | None = None,
    tracer: Tracer | None = None,
    every: float = 60.0,
    callbacks: Callbacks | None = None,
) -> Engine:
    """Return the parts for these tables and queues. ``every``: seconds from one visit of the supervisor to the next."""
    clock, observer = clock or SystemClock(), observer or NullObserver()
    logger = logger or logging.getLogger("sagas")
    owners = (saga.definition.name for saga in registry if saga.definition.orphans is not None)
    settings = replace(settings, never_expiring=settings.never_expiring | frozenset(owners))
    tables = tables_for(settings)
    payloads = Payloads(settings)
    control, journal, listing = ControlItems(tables, settings), Journal(tables, payloads), Listing(tables, settings)
    routes = replace(routes, lanes={saga.definition.name: saga.lanes for saga in registry})
    queues = Queues(routes, settings.region, settings.endpoint_url)
    sender = queues if tracer is None else TracedSender(queues, routes, journal, tracer)
    attempt = IdempotentAttempt if tracer is None else traced_attempts(tracer)
    headers = None if tracer is None else tracer.headers
    auto_disabler = AutoDisabler(registry, Streaks(tables), control, listing, logger, observer)
    breakers = Breakers(BreakerItems(tables, settings), registry, clock, logger, observer)
    inbox, findings = Inbox(tables, settings, payloads), Findings(tables, settings)
    joins = Joins(tables, settings)
    observers = (breakers, observer, auto_disabler, JoinObserver(control, joins, queues, logger))
    committer = Committer(control, journal, clock, observers, inbox)
    services = AttemptServices(control, journal, committer, Runner(), clock, logger, queues.delay, connect)
    pauses = Pauses(tables, settings.sagas_table, clock.now)
    services = replace(services, gates=(Parking(pauses, control), breakers), accept=inbox.accept)
    services = services if goes_on is None else replace(services, goes_on=goes_on)
    services = services if callbacks is None else replace(services, callback_url=callbacks.url)
    advancer = Advancer(services, registry, sender, attempt, carry, chain, queues)
    breaker_operations = BreakerOperations(breakers, control, listing, advancer, logger)
    pausing = Pausing(pauses, registry, control, listing, advancer, auto_disabler, logger)
    watermarks = Watermarks(tables)
    reader = Reader(registry, control, journal, listing, breakers, Remains(registry, journal), pauses, findings, joins)
    purger = Purger(
        control,
        journal,
        Tombstones(tables, settings, payloads),
        inbox,
        findings,
        joins,
        listing,
        reader,
        settings,
        clock,
        logger,
    )
    births = Births(registry, control, journal, clock, carry, headers, findings)
    children = Children(advancer, control, joins, births, sender, queues)
    starter = Starter(
        registry, control, journal, sender, clock, pauses, auto_disabler, findings, carry=carry, headers=headers
    )
    return Engine(
        registry=registry,
        control=control,
        journal=journal,
        queues=queues,
        services=services,
        worker=Worker(advancer),
        starter=starter,
        reader=reader,
        operations=Operations(reader, control, advancer),
        signals=Signals(reader, inbox, advancer, queues),
        recovery=Recovery(advancer, control, listing, queues, watermarks, queues, pausing, look_ahead(every)),
        looker=Looker(advancer, control),
        purger=purger,
        verifier=Verifier(control, journal, reader, clock, settings.shards),
        finder=Finder(listing, HandOuts(tables), queues, clock, pausing.shards, look_ahead(every)),
        pauses=pauses,
        findings=findings,
        pausing=pausing,
        auto_disabler=auto_disabler,
        breakers=breakers,
        lanes=LaneNotes(watermarks, clock, routes.lane),
        children=children,
        breaker_operations=breaker_operations,
        statistics=Statistics(registry, control, listing, queues, pauses, breaker_operations, clock),
        callbacks=callbacks,
        clock=clock,
        tables=tables,
    )


def settings_from(environment: Mapping[str, str]) -> StoreSettings:
    """Read where the store is."""
    missing = [name for name in ("SAGAS_TABLE", "SAGAS_AUDIT_TABLE") if not environment.get(name)]
    if missing:
        raise SagaError(f"the environment lacks {', '.join(missing)}")
    return StoreSettings(
        sagas_table=environment["SAGAS_TABLE"],
        audit_table=environment["SAGAS_AUDIT_TABLE"],
        payload_bucket=environment.get("SAGAS_PAYLOAD_BUCKET", ""),
        payload_limit=int(environment.get("SAGAS_PAYLOAD_LIMIT", StoreSettings.payload_limit)),
        shards=int(environment.get("SAGAS_SHARDS", StoreSettings.shards)),
        retention=float(environment.get("SAGAS_RETENTION", StoreSettings.retention)),
        key_retention=float(environment.get("SAGAS_KEY_RETENTION", StoreSettings.key_retention)),
        joins_table=environment.get("SAGAS_JOINS_TABLE", ""),
        payload_key=environment.get("SAGAS_PAYLOAD_KEY", ""),
        region=environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION"),
        endpoint_url=environment.get("AWS_ENDPOINT_URL"),
    )


def from_environment(
    environment: Mapping[str, str],
    observer: EngineObserver | None = None,
    logger: logging.Logger | None = None,
    tracer: Tracer | None = None,
    goes_on: Callable[[Message], None] | None = None,
) -> Engine:
    """Return the parts that a Lambda function's environment describes; see :func:`build_engine`."""
    missing = [name for name in ("SAGAS_CLASSES", "SAGAS_QUEUES") if not environment.get(name)]
    if missing:
        raise SagaError(f"the environment lacks {', '.join(missing)}")
    usual = environment.get("SAGAS_AUTO_DISABLE")
    classes, groups = environment["SAGAS_CLASSES"], dict[str, dict[str, str]]()
    if classes.startswith("@"):  # many types: they, and the steps that share a queue, are in a file beside the code
        path = Path(environment.get("LAMBDA_TASK_ROOT", "."), classes[1:])
        try:
            types = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise SagaError(f"SAGAS_CLASSES names {path}, which is not there") from None
        classes, groups = json.dumps(types["classes"]), types["groups"]
    registry = Registry.load(classes, AutoDisable.parse(usual) if usual else None)
    steps = {saga.definition.name: [step.name for step in saga.definition.steps] for saga in registry}
    routes = Routes.parse(environment["SAGAS_QUEUES"], steps, groups)
    # What is encrypted in tables and bucket is not to be read in queues.
    carry = environment.get("SAGAS_CARRY_INPUTS") != "0" and not environment.get("SAGAS_PAYLOAD_KEY")
    settings, clock, callbacks = settings_from(environment), SystemClock(), None
    if url := environment.get("SAGAS_CALLBACK_URL"):
        secret = environment["SAGAS_CALLBACK_SECRET"]
        callbacks = Callbacks(url, CallbackKeys(secret, clock.now, settings.region, settings.endpoint_url))
    return build_engine(
        registry,
        settings,
        routes,
        clock=clock,
        observer=observer,
        logger=logger,
        carry=carry,
        tracer=tracer,
        chain=Chain.parse(environment.get("SAGAS_CHAIN", "")),
        goes_on=goes_on,
        every=float(environment.get("SAGAS_RECOVER_EVERY", 60)),
        callbacks=callbacks,
    )
