"""Notes that the synthesis prints for whoever deploys the service."""

from __future__ import annotations

from collections.abc import Iterable

from aws_cdk import Annotations
from constructs import Construct

from sagas.cdk.compute.bytecode import compiler_for
from sagas.cdk.layout.catalogue import Catalogue
from sagas.cdk.layout.nested_stacks import Placement

_NO_RETENTION = (
    "keeps all sagas for good, because it has no retention. A million sagas of five steps cost about 2 USD per month "
    "to keep (4 KB each, with backups); see docs/build/personal-data.md#purge"
)


def note(service: Construct, catalogue: Catalogue, placements: Iterable[Placement]) -> None:
    """Note a missing alarm topic, the cost of a missing retention, the shares of ``max_concurrency``, and step
    functions without a limit."""
    options = catalogue.service_options
    notes = Annotations.of(service)
    if options.alarm_topic is None:
        message = f"{options.service}: nobody is notified when an alarm fires; set alarm_topic"
        notes.add_warning_v2("sagas:NoAlarmTopic", message)
    runtime = options.runtime.name
    if compiler_for(runtime) is None:
        notes.add_info(
            f"{options.service}: there is no {runtime} here to compile the functions' code, so each cold start "
            "compiles it, which takes about as long again as importing it"
        )
    if options.retention is None:
        notes.add_info(f"{options.service}: {_NO_RETENTION}")
    if catalogue.shares:
        shares = ", ".join(f"{lane} {share}" for lane, share in catalogue.shares.items())
        notes.add_info(f"{options.service}: max_concurrency={options.max_concurrency} is divided: {shares}")
    lanes = [group.options for placement in placements for group in placement.groups]
    if not any(lane.maximum_concurrency or lane.reserved_concurrency for lane in lanes):
        notes.add_info(
            f"{options.service}: nothing limits its functions, so a burst may use all executions of the account, "
            "including those of the API and the supervisor; set maximum_concurrency, or reserved_concurrency in "
            'functions={"api": ..., "supervisor": ...}'
        )
