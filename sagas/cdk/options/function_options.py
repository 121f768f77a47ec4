"""Options of one function of a :class:`SagaService`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Self

from aws_cdk import Size
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_lambda as lambda_

from sagas.cdk.options.checks import fits, one_of, variables, within
from sagas.errors import DefinitionError

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LEAST_STORAGE = 512
_LEAST_MAPPED = 2
_MOST_MAPPED = 1_000
"""The range of the maximum concurrency of an SQS event source mapping."""


@dataclass(frozen=True, slots=True)
class Network:
    """The part of a VPC that functions run in. Endpoints or NAT must connect it to DynamoDB, SQS and S3, and to what
    the steps call. A service with public waits also needs Secrets Manager, one with a ``payload_key`` KMS, and one that
    publishes events EventBridge.

    Args:
        vpc: the VPC.
        subnets: the subnets. Default: subnets with egress.
        security_groups: the security groups of the functions. Default: one group for all functions of the service in
            this VPC, which allows all outbound traffic. Lambda creates a network interface per subnet and group, and a
            VPC allows a few hundred.
    """

    vpc: ec2.IVpc | ec2.Vpc
    subnets: ec2.SubnetSelection | None = None
    security_groups: Sequence[ec2.ISecurityGroup | ec2.SecurityGroup] | None = None


@dataclass(frozen=True, slots=True)
class FunctionOptions:
    """Options of the function of a step, of a whole saga, or of the service itself. Options that are not given keep the
    default of that kind of function.

    Args:
        memory_size: memory in MB. More memory also brings more CPU. Default for steps: 256.
        ephemeral_storage: size of ``/tmp``. Default: Lambda's 512 MB.
        batch_size: messages per invocation, 1 to 10. Default: 1. The default timeout is long enough for all of them,
            one after the other. If your own ``timeout`` is not, messages without enough time return to the queue before
            they start.
        timeout: seconds that the function may run. Default: derived from the timeouts of its steps.
        maximum_concurrency: maximum concurrent invocations from the queue, 2 or more. Default:
            ``reserved_concurrency`` if given, but at least 2. An idle queue then costs more, because Lambda keeps five
            pollers instead of two.
        reserved_concurrency: executions reserved for the function. The number is also its limit, so
            ``maximum_concurrency`` cannot be greater: a message that Lambda refuses counts as received. If you only
            want a limit, prefer ``maximum_concurrency``.
        weight: the function's share of the service's ``max_concurrency``, relative to other functions. Default: 1. A
            function with a limit of its own cannot have one.
        environment: additional environment variables of the function.
        network: its VPC. Default: the service's.
        log_level: the function's log level. Default: the service's.
        architecture: the function's architecture. The layer is built for it. Default: the service's.
        runtime: Python 3.11 or newer. The layer is built for it. Default: the service's.
        provisioned_concurrency: executions that Lambda keeps ready and bills by time; at most
            ``reserved_concurrency`` and ``maximum_concurrency``.
        snap_start: whether a new environment starts from a snapshot taken after the imports. Requires Python 3.12 or
            newer, 512 MB of storage, and no ``provisioned_concurrency``. All environments then share values that
            modules compute on import, such as random ids.

    Raises:
        DefinitionError: Lambda would refuse a value, or two options contradict each other.
    """

    memory_size: int | None = None
    ephemeral_storage: Size | None = None
    batch_size: int | None = None
    timeout: int | None = None
    maximum_concurrency: int | None = None
    reserved_concurrency: int | None = None
    weight: float | None = None
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
        within("FunctionOptions", "maximum_concurrency", self.maximum_concurrency, _LEAST_MAPPED, _MOST_MAPPED)
        within("FunctionOptions", "reserved_concurrency", self.reserved_concurrency, 1, 1_000_000)
        within("FunctionOptions", "weight", self.weight, 0.001, 1_000_000)
        if self.log_level is not None:
            one_of("FunctionOptions", "log_level", self.log_level, LOG_LEVELS)
        within("FunctionOptions", "provisioned_concurrency", self.provisioned_concurrency, 1, 1_000_000)
        variables("FunctionOptions", self.environment)
        fits("FunctionOptions", self.architecture, self.runtime)
        if self.snap_start and self.provisioned_concurrency is not None:
            raise DefinitionError("FunctionOptions: snap_start cannot be combined with provisioned_concurrency")
        if self.snap_start and storage is not None and storage > _LEAST_STORAGE:
            raise DefinitionError(f"FunctionOptions: snap_start requires an ephemeral_storage of {_LEAST_STORAGE} MB")
        if self.maximum_concurrency is not None:
            self._fits_in("maximum_concurrency", self.maximum_concurrency, "reserved_concurrency", _LEAST_MAPPED)
        if self.provisioned_concurrency is not None:
            self._fits_in("provisioned_concurrency", self.provisioned_concurrency, "reserved_concurrency")
            self._fits_in("provisioned_concurrency", self.provisioned_concurrency, "maximum_concurrency")
        if self.weight is not None and self.limit is not None:
            raise DefinitionError(
                f"FunctionOptions: weight={self.weight!r} has no effect with a limit of the function's own "
                f"({self.limit}); leave one out"
            )

    @property
    def limit(self) -> int | None:
        """The limit of concurrent executions; ``None`` if the options set none."""
        limits = (self.maximum_concurrency, self.reserved_concurrency)
        return min((limit for limit in limits if limit is not None), default=None)

    def over(self, usual: Self) -> Self:
        """Return these options, with the usual ones of the kind of function where none is given. Lambda's pollers never
        take more messages than the reserved executions process, or SQS would dead-letter those that were refused."""
        named = ((option.name, getattr(self, option.name)) for option in fields(self))
        given = {name: value for name, value in named if value is not None}
        if self.maximum_concurrency is None and self.reserved_concurrency is not None:
            reserved = max(_LEAST_MAPPED, self.reserved_concurrency)
            given["maximum_concurrency"] = min(reserved, usual.maximum_concurrency or _MOST_MAPPED)
        return replace(usual, **given)

    def _fits_in(self, option: str, value: int, limit: str, least: int = 1) -> None:
        most: int | None = getattr(self, limit)
        if most is not None and value > max(least, most):
            raise DefinitionError(
                f"FunctionOptions: {option}={value} is more than {limit}={most}; lower it to {max(least, most)}, or "
                f"raise {limit}"
            )


USUAL = FunctionOptions(memory_size=256)
"""The options of a function of steps where none is given, and of other functions that need no more."""
