"""What a user of :class:`SagaService` may choose for one function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aws_cdk import Size
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_lambda as lambda_

from sagas.cdk.options.checks import fits, one_of, variables, within
from sagas.errors import DefinitionError

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LEAST_STORAGE = 512


@dataclass(frozen=True, slots=True)
class Network:
    """The part of a VPC that functions run in. It needs a way to DynamoDB, SQS and S3: endpoints or NAT.

    Args:
        vpc: the network.
        subnets: which of its subnets; those with egress when absent.
        security_groups: of the functions; when absent, one that lets everything out, which all functions of the service
            in this VPC share. Lambda has an interface for each subnet and group, of which a VPC takes a few hundred.
    """

    vpc: ec2.IVpc | ec2.Vpc
    subnets: ec2.SubnetSelection | None = None
    security_groups: Sequence[ec2.ISecurityGroup | ec2.SecurityGroup] | None = None


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
        weight: its part of the service's ``max_concurrency``, in proportion to those of the other functions; it counts
            only there, and only without a limit of its own.
        environment: further environment variables of this function.
        network: the VPC it runs in; that of the service when absent.
        log_level: of this function; that of the service when absent.
        architecture: of this function; that of the service when absent. A layer is built for it.
        runtime: a Python from 3.11 on; that of the service when absent. A layer is built for it.
        provisioned_concurrency: executions that Lambda keeps ready, at a price by the hour; at most
            ``reserved_concurrency``.
        snap_start: whether a new environment begins with a snapshot of one whose imports are done. Takes Python 3.12 or
            newer, 512 MB of storage, and no ``provisioned_concurrency``. What a module makes when it is imported, such
            as random ids, all environments have in common then.

    Raises:
        DefinitionError: a value that Lambda would refuse.
    """

    memory_size: int = 256
    ephemeral_storage: Size | None = None
    batch_size: int = 1
    timeout: int | None = None
    maximum_concurrency: int | None = None
    reserved_concurrency: int | None = None
    weight: float = 1
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    network: Network | None = None
    log_level: str | None = None
    architecture: lambda_.Architecture | None = None
    runtime: lambda_.Runtime | None = None
    provisioned_concurrency: int | None = None
    snap_start: bool = False

    def __post_init__(self) -> None:
        storage = None if self.ephemeral_storage is None else self.ephemeral_storage.to_mebibytes()
        within("FunctionOptions", "memory_size", self.memory_size, 128, 10_240)
        within("FunctionOptions", "ephemeral_storage (in MB)", storage, _LEAST_STORAGE, 10_240)
        within("FunctionOptions", "batch_size", self.batch_size, 1, 10)
        within("FunctionOptions", "timeout", self.timeout, 1, 900)
        within("FunctionOptions", "maximum_concurrency", self.maximum_concurrency, 2, 1_000)
        within("FunctionOptions", "reserved_concurrency", self.reserved_concurrency, 1, 1_000_000)
        within("FunctionOptions", "weight", self.weight, 0.001, 1_000_000)
        if self.log_level is not None:
            one_of("FunctionOptions", "log_level", self.log_level, LOG_LEVELS)
        most = self.reserved_concurrency or 1_000_000
        within("FunctionOptions", "provisioned_concurrency", self.provisioned_concurrency, 1, most)
        variables("FunctionOptions", self.environment)
        fits("FunctionOptions", self.architecture, self.runtime)
        if self.snap_start and self.provisioned_concurrency is not None:
            raise DefinitionError("FunctionOptions: snap_start goes without provisioned_concurrency")
        if self.snap_start and storage is not None and storage > _LEAST_STORAGE:
            raise DefinitionError(f"FunctionOptions: snap_start takes an ephemeral_storage of {_LEAST_STORAGE} MB only")
