"""What the synthesis of a service tells whoever deploys it."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Annotations
from constructs import Construct

from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.nested_stacks import Placement

_KEPT_FOR_GOOD = (
    "keeps all sagas for good, as it has no retention. Each million sagas of five steps adds about 2 USD to every "
    "month's bill from then on (4 KB each, with backups): see docs/operations/deploying.md#keeping"
)


def note(service: Construct, catalogue: Catalogue, placements: Iterable[Placement]) -> None:
    """Say that nobody is woken; what keeping everything costs; how ``max_concurrency`` is divided, or that nothing
    limits the functions of steps."""
    options, notes = catalogue.service_options, Annotations.of(service)
    if options.alarm_topic is None:
        message = f"{options.service}: nobody is told when an alarm goes on; give SagaService an alarm_topic"
        notes.add_warning_v2("sagas:NoAlarmTopic", message)
    if options.retention is None:
        notes.add_info(f"{options.service}: {_KEPT_FOR_GOOD}")
    if catalogue.shares:
        shares = ", ".join(f"{lane} {share}" for lane, share in catalogue.shares.items())
        notes.add_info(f"{options.service}: max_concurrency={options.max_concurrency} is divided: {shares}")
    lanes = [group.options for placement in placements for group in placement.groups]
    if not any(lane.maximum_concurrency or lane.reserved_concurrency for lane in lanes):
        notes.add_info(
            f"{options.service}: nothing limits its functions, so a burst may take all executions of the account, "
            "those of the API and the supervisor too; set maximum_concurrency, or a reserved_concurrency of "
            'functions={"api": ..., "supervisor": ...}'
        )
