"""What a user of :class:`SagaService` may choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from aws_cdk import RemovalPolicy, Size
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs

__all__ = ["METRICS_NAMESPACE", "FunctionOptions", "ServiceOptions"]

METRICS_NAMESPACE = "Sagas"


@dataclass(frozen=True, slots=True)
class FunctionOptions:
    """How the function of one step is run.

    Args:
        memory_size: megabytes; processor time grows with it.
        ephemeral_storage: size of ``/tmp``; Lambda's 512 MB when absent.
        batch_size: messages an invocation takes, 1 to 10. The function's timeout covers them one after the other.
        maximum_concurrency: most invocations the queue may cause at a time, from 2. Keeps five pollers awake instead
            of two, so an idle queue costs more.
        environment: further environment variables of this function.
    """

    memory_size: int = 256
    ephemeral_storage: Size | None = None
    batch_size: int = 1
    maximum_concurrency: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """What holds for all functions, tables and queues of a service.

    Args:
        service: name of the service in logs and metrics.
        architecture: of the functions; third-party code is fetched for it.
        runtime: Python of the functions; third-party code is fetched for it.
        log_level: DEBUG, INFO, WARNING, ERROR or CRITICAL.
        log_retention: how long log groups keep their lines.
        removal_policy: what happens to tables and the payload bucket when they leave the stack. Anything but DESTROY
            protects the tables against deletion as well.
        shards: over how many keys the indexes are spread.
        environment: variables every function gets.
    """

    service: str
    architecture: lambda_.Architecture
    runtime: lambda_.Runtime
    log_level: str
    log_retention: logs.RetentionDays
    removal_policy: RemovalPolicy
    shards: int
    environment: Mapping[str, str]
