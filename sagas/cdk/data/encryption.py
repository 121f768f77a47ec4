"""The use of a customer's KMS key for the data of a service."""

from __future__ import annotations

from typing import Any, cast

from aws_cdk import ArnFormat, Aws, Stack, Validations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from constructs import Construct

from sagas.cdk.layout.acknowledge import acknowledge
from sagas.cdk.layout.roles import OwnRole
from sagas.cdk.options.service_options import AnyKey, ServiceOptions

_USES = ("Decrypt", "DescribeKey", "Encrypt", "GenerateDataKey")
_SERVICES = ("dynamodb", "lambda", "s3", "secretsmanager", "sqs")
"""The AWS services that encrypt a service's data."""


def allow_key(role: OwnRole, key: AnyKey | None, *services: str) -> None:
    """Let a role read and write encrypted data, through the AWS services that encrypt it. Default: all that encrypt a
    service's data. The key's policy must leave access control to IAM, as the CDK's default does."""
    if key is not None:
        actions = [f"kms:{use}" for use in _USES]
        via = via_services(*(services or _SERVICES))
        role.allow(iam.PolicyStatement(actions=actions, resources=[key.key_arn], conditions=via))


def via_services(*services: str) -> dict[str, dict[str, list[str]]]:
    """Return the condition that a key may be used only through these AWS services. A key may also encrypt other data.
    Without the condition, a role could decrypt any ciphertext under it."""
    # The DNS suffix differs between AWS partitions.
    return {"StringLike": {"kms:ViaService": [f"{service}.{Aws.REGION}.amazonaws.*" for service in services]}}


def private_bucket(scope: Construct, id: str, options: ServiceOptions, unlogged: str, **more: Any) -> s3.Bucket:
    """Create a bucket that blocks public access, accepts only TLS, and is encrypted like all data of the service.
    ``unlogged``: why it needs no access log by default. ``more`` are further arguments of the CDK's bucket."""
    key = options.encryption_key
    logged = options.access_logs.bucket
    bucket = s3.Bucket(
        scope,
        id,
        encryption=s3.BucketEncryption.KMS if key else s3.BucketEncryption.S3_MANAGED,
        encryption_key=cast("kms.IKey | None", key),
        # One data key for many objects needs far fewer paid requests to KMS.
        bucket_key_enabled=True if key else None,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        enforce_ssl=True,
        removal_policy=options.removal_policy,
        server_access_logs_bucket=cast("s3.IBucket | None", logged),
        server_access_logs_prefix=None if logged is None else f"{options.service}/{id}/",
        **more,
    )
    if logged is None:
        acknowledge(Validations.of(bucket), {"AwsSolutions-S1": unlogged})
    return bucket


def let_logs_use(scope: Construct, key: AnyKey | None) -> None:
    """Let CloudWatch Logs encrypt log groups of this account and region. An imported key's policy does not change."""
    if key is None:
        return
    stack = Stack.of(scope)
    groups = stack.format_arn(
        service="logs", resource="log-group", resource_name="*", arn_format=ArnFormat.COLON_RESOURCE_NAME
    )
    # The principal depends on region and partition; in China, it is like logs.cn-north-1.amazonaws.com.cn.
    principal = iam.ServicePrincipal(f"logs.{stack.region}.{stack.url_suffix}")
    key.add_to_resource_policy(
        iam.PolicyStatement(
            actions=["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"],
            principals=[cast("iam.IPrincipal", principal)],
            resources=["*"],
            conditions={"ArnLike": {"kms:EncryptionContext:aws:logs:arn": groups}},
        )
    )
