"""What a user of :class:`SagaService` may choose."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Literal

from aws_cdk import RemovalPolicy, Size
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs

from sagas.errors import DefinitionError

METRICS_NAMESPACE = "Sagas"
ARCHITECTURES = ("arm64", "x86_64")
_OLDEST_PYTHON = 11
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")

Isolation = Literal["step", "saga"]


@dataclass(frozen=True, slots=True)
class Network:
    """The part of a VPC that functions run in. It needs a way to DynamoDB, SQS and S3: endpoints or NAT.

    Args:
        vpc: the network.
        subnets: which of its subnets; those with egress when absent.
        security_groups: of the functions; one of their own that lets everything out when absent.
    """

    vpc: ec2.IVpc | ec2.Vpc
    subnets: ec2.SubnetSelection | None = None
    security_groups: Sequence[ec2.ISecurityGroup | ec2.SecurityGroup] | None = None


@dataclass(frozen=True, slots=True)
class Throttling:
    """What the API's stage lets through: ``rate`` calls a second, ``burst`` at once."""

    rate: float = 500
    burst: int = 1000

    def __post_init__(self) -> None:
        within("Throttling", "rate", self.rate, 1, 1_000_000)
        within("Throttling", "burst", self.burst, 1, 1_000_000)


@dataclass(frozen=True, slots=True)
class FunctionOptions:
    """How the function of a step is run, or that of a whole saga.

    Args:
        memory_size: megabytes; processor time grows with it.
        ephemeral_storage: size of ``/tmp``; Lambda's 512 MB when absent.
        batch_size: messages an invocation takes, 1 to 10. The function's timeout covers them one after the other. With
            a ``timeout`` of your own it need not: messages for which no time is left go back to the queue unbegun.
        timeout: seconds the function may run, instead of what its steps' timeouts make it.
        maximum_concurrency: most invocations the queue may cause at a time, from 2. Keeps five pollers awake instead
            of two, so an idle queue costs more.
        reserved_concurrency: executions set aside for the function, and its most. Rather use ``maximum_concurrency``
            to hold it back: a message that Lambda refuses counts as received.
        environment: further environment variables of this function.
        network: the VPC it runs in; that of the service when absent.
        log_level: of this function; that of the service when absent.
        architecture: of this function; that of the service when absent. A layer is built for it.
        runtime: a Python from 3.11 on; that of the service when absent. A layer is built for it.

    Raises:
        DefinitionError: a value that Lambda would refuse.
    """

    memory_size: int = 256
    ephemeral_storage: Size | None = None
    batch_size: int = 1
    timeout: int | None = None
    maximum_concurrency: int | None = None
    reserved_concurrency: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    network: Network | None = None
    log_level: str | None = None
    architecture: lambda_.Architecture | None = None
    runtime: lambda_.Runtime | None = None

    def __post_init__(self) -> None:
        storage = None if self.ephemeral_storage is None else self.ephemeral_storage.to_mebibytes()
        within("FunctionOptions", "memory_size", self.memory_size, 128, 10_240)
        within("FunctionOptions", "ephemeral_storage (in MB)", storage, 512, 10_240)
        within("FunctionOptions", "batch_size", self.batch_size, 1, 10)
        within("FunctionOptions", "timeout", self.timeout, 1, 900)
        within("FunctionOptions", "maximum_concurrency", self.maximum_concurrency, 2, 1_000)
        within("FunctionOptions", "reserved_concurrency", self.reserved_concurrency, 1, 1_000_000)
        if self.log_level is not None:
            one_of("FunctionOptions", "log_level", self.log_level, LOG_LEVELS)
        fits("FunctionOptions", self.architecture, self.runtime)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceOptions:
    """What holds for all functions, tables and queues of a service; :class:`SagaService` says what each is for."""

    service: str
    architecture: lambda_.Architecture
    runtime: lambda_.Runtime
    log_level: str
    log_retention: logs.RetentionDays
    removal_policy: RemovalPolicy
    deletion_protection: bool | None
    shards: int
    retention: timedelta | None
    payload_limit: int | None
    environment: Mapping[str, str]
    encryption_key: kms.IKey | kms.Key | None
    network: Network | None
    authorizer: apigateway.IAuthorizer | apigateway.Authorizer | None
    throttling: Throttling
    isolation: Isolation

    def __post_init__(self) -> None:
        seconds = None if self.retention is None else self.retention.total_seconds()
        fits(self.service, self.architecture, self.runtime)
        one_of(self.service, "log_level", self.log_level, LOG_LEVELS)
        one_of(self.service, "isolation", self.isolation, ("step", "saga"))
        within(self.service, "shards", self.shards, 1, 1_024)
        within(self.service, "retention (in seconds)", seconds, 3600, 100 * 366 * 86_400)
        within(self.service, "payload_limit (in bytes)", self.payload_limit, 1_024, 256 * 1024)


def within(where: str, option: str, value: Any, least: float, most: float) -> None:
    """Refuse a number outside of what AWS or the library allows; ``None`` stands for the default.

    Raises:
        DefinitionError: it is no number, or outside.
    """
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
        raise DefinitionError(f"{where}: {option} must be {least:,} to {most:,}, not {value!r}")


def fits(where: str, architecture: lambda_.Architecture | None, runtime: lambda_.Runtime | None) -> None:
    """Refuse what the library does not run on; ``None`` stands for the service's own.

    Raises:
        DefinitionError: it is no architecture of Lambda's, or no Python from 3.11 on.
    """
    if architecture is not None:
        one_of(where, "architecture", architecture.name, ARCHITECTURES)
    version = re.fullmatch(r"python3\.(\d+)", runtime.name) if runtime is not None else None
    if runtime is not None and (version is None or int(version[1]) < _OLDEST_PYTHON):
        raise DefinitionError(f"{where}: runtime must be a Python from 3.{_OLDEST_PYTHON} on, not {runtime.name}")


def one_of(where: str, option: str, value: object, known: Sequence[str]) -> None:
    """Refuse a word that is none of those known.

    Raises:
        DefinitionError: it is another.
    """
    if value not in known:
        raise DefinitionError(f"{where}: {option} must be one of {', '.join(known)}, not {value!r}")
