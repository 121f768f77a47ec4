"""The service's own work queues, each with a dead-letter queue and a function.

The queue ``bulk`` is for work that can take its time, ``now`` for urgent work: recovering a million sagas does not
delay the end of a wait. A service has ``now`` only if one of its sagas waits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from aws_cdk import aws_sqs as sqs
from constructs import Construct

from sagas.cdk.compute.functions import SagaFunction, SharedAssets
from sagas.cdk.compute.permissions import (
    allow_all_sagas,
    allow_counting,
    allow_joining,
    allow_one_saga,
    allow_sending,
    allow_working,
)
from sagas.cdk.data.queues import queue_with_letters
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.nested_stacks import service_token
from sagas.cdk.layout.tags import tag_part
from sagas.cdk.options.function_options import FunctionOptions
from sagas.cdk.options.service_options import ServiceOptions
from sagas.cdk.parts.alarms import Alarms
from sagas.cdk.parts.part import Part
from sagas.messaging.work import BULK as BULK_NAME
from sagas.messaging.work import NOW as NOW_NAME
from sagas.topology import AFTER_FUNCTION

_MAX_RECEIVES = 10
"""After this many receives, SQS dead-letters a message whose function keeps failing. The supervisor finds the work
again, or the alarm reports it."""


@dataclass(frozen=True, slots=True)
class WorkKind:
    """A kind of work with its own queue and function, which has this name in the option ``functions``. ``timeout`` is
    in seconds, ``memory_size`` in MB. ``maximum_concurrency`` limits invocations, so that this work never starves the
    steps. ``does``: what the function does, as a verb phrase for its alarm. ``given_up``: what a dead letter means, as
    the text of its alarm. ``lists``: whether the function may list sagas by the indexes, and purge them; if not,
    messages name the sagas."""

    name: str
    handler: str
    description: str
    timeout: int
    memory_size: int
    maximum_concurrency: int
    does: str
    given_up: str
    batch_size: int = 1
    lists: bool = True

    def options_in(self, service: ServiceOptions) -> FunctionOptions:
        """Return the options of the function: those that the service sets, else the defaults of this kind."""
        usual = FunctionOptions(
            memory_size=self.memory_size, timeout=self.timeout, maximum_concurrency=self.maximum_concurrency
        )
        return service.own_function(self.name, usual)


BULK = WorkKind(
    name=BULK_NAME,
    handler="sagas.handlers.bulk.handler",
    description="Recovers stalled sagas, purges old ones, and continues sweeps",
    timeout=300,
    memory_size=1024,
    maximum_concurrency=10,
    does="recovers, purges and sweeps",
    given_up="Recovery, purges or sweeps have failed for good.",
)
NOW = WorkKind(
    name=NOW_NAME,
    handler="sagas.handlers.now.handler",
    description="Ends waits of sagas, and does other due work that runs no step code",
    timeout=30,
    memory_size=512,
    maximum_concurrency=20,
    does="ends waits",
    given_up="Waits could not be ended; the supervisor will retry.",
    batch_size=10,
    lists=False,
)


class WorkQueue(Construct):
    """A work queue and its own dead-letter queue."""

    def __init__(self, scope: Construct, id: str, *, kind: WorkKind, options: ServiceOptions) -> None:
        super().__init__(scope, id)
        self.kind = kind
        self.name = kind.name
        name = f"Work-{kind.name}-{service_token(scope)}"
        hidden = (kind.options_in(options).timeout or kind.timeout) + AFTER_FUNCTION
        self.queue, self.dead_letters = queue_with_letters(
            self, name, options.encryption_key, hidden=hidden, max_receives=_MAX_RECEIVES
        )
        tag_part(self.dead_letters, "work_dead_letter_queue", name=kind.name)
        tag_part(self.queue, "work_queue", name=kind.name)


class WorkFunction(SagaFunction, Part):
    """The function of a work queue. ``also``: other work queues that it sends to. ``listing``: whether it lists the
    sagas of a type, to count consecutive failures."""

    def __init__(
        self,
        scope: Construct,
        id: str,
        *,
        shared: SharedAssets,
        work: WorkQueue,
        environment: Mapping[str, str],
        also: Sequence[sqs.Queue] = (),
        counting: bool = False,
    ) -> None:
        kind = work.kind
        options = work.kind.options_in(shared.options)
        super().__init__(
            scope,
            id,
            shared=shared,
            handler=kind.handler,
            timeout=options.timeout or kind.timeout,
            environment=environment,
            function=options,
            description=kind.description,
            sends_to=shared.queues.values(),
            # A message can cause another message in this queue. Messages count these hops themselves.
            recursive=True,
        )
        tag_part(self.function, "work_function", name=kind.name)
        if kind.lists:
            allow_all_sagas(self.role, shared.tables)
        else:
            allow_one_saga(self.role, shared.tables)
            allow_joining(self.role, shared.tables, reading=True)
            if counting:
                allow_counting(self.role, shared.tables)
        allow_sending(self.role, shared.queues.values(), counting=True)
        for to in (work.queue, *also):
            allow_working(self.role, to, counting=kind.lists)
        self.work = work
        self.consume(cast("sqs.IQueue", work.queue), kind.batch_size, options.maximum_concurrency)

    @classmethod
    def count(cls, catalogue: Catalogue) -> int:
        """Count the resources of ``now``, which exists if a saga waits. ``bulk`` always exists, and is counted
        elsewhere."""
        if not catalogue.works_now:
            return 0
        return 9 + (2 if catalogue.service_options.alarms_by_step else 0) + catalogue.gradual

    def watch(self, alarms: Alarms) -> None:
        """Watch what was given up, if there are alarms by step. Otherwise, one alarm watches all background work."""
        if not alarms.by_step:
            return
        kind = self.work.kind
        id = self.work.name.capitalize()
        section = f"{kind.name}-dead-letters"
        alarms.watch_letters(f"{id}DeadLetters", self.work.dead_letters, kind.given_up, section)
        errors = alarms.watch_errors(f"{id}Errors", self.function, f"The function that {kind.does}")
        alarms.guard(self, self.alias, *errors)
