"""The reference stack: the sagas of ``functions/``, and the bucket, the tables and the topic that they use."""

from __future__ import annotations

from aws_cdk import CfnOutput, Duration, RemovalPolicy, Stack, Validations
from aws_cdk import aws_dynamodb as dynamodb
from aws_cdk import aws_iam as iam
from aws_cdk import aws_kms as kms
from aws_cdk import aws_s3 as s3
from aws_cdk import aws_sns as sns
from constructs import Construct

from functions.approval import Approval
from functions.basket import Basket, Parcel
from functions.checkout import Checkout
from functions.create_zip import CreateZip
from sagas.cdk import FunctionOptions, SagaService
from sagas.cdk.layout.acknowledge import acknowledge, acknowledge_objects

_SOURCES = "sources/*"
_ARCHIVES = "create-zip/*"
_KEPT = RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
"""Resources are kept, except after a failed first deployment."""


class ReferenceStack(Stack):
    """The sagas create-zip, checkout, approval, basket and parcel, and the resources that they use."""

    def __init__(self, scope: Construct, id: str) -> None:
        super().__init__(scope, id, description="lambda-sagas: the reference sagas of functions/")
        self.zips = _zips_bucket(self)
        self.announcements = _announcements(self)
        self.stock = _table(self, "Stock", "sku")
        self.ledger = _table(self, "Ledger", "payment_key")
        self.shipments = _table(self, "Shipments", "shipment_key")
        self.orders = _table(self, "Orders", "order_key")
        self.service = self._service()
        self._grant_create_zip()
        self._grant_shop()
        self._grant_approval()
        self._show_outputs()

    def _service(self) -> SagaService:
        service = SagaService(
            self,
            "Sagas",
            sagas=[CreateZip, Checkout, Approval, Basket, Parcel],
            # cdk deploy -c alarm_email=ADDRESS
            alarm_topic=self.node.try_get_context("alarm_email"),
            functions={CreateZip.upload: FunctionOptions(memory_size=1024)},
            # Use cdk deploy -c access_log=account if the account has a role with which API Gateway writes logs.
            access_log=self.node.try_get_context("access_log") or "off",
            environment={
                "ZIPS_BUCKET": self.zips.bucket_name,
                "ANNOUNCE_TOPIC_ARN": self.announcements.topic_arn,
                "STOCK_TABLE": self.stock.table_name,
                "LEDGER_TABLE": self.ledger.table_name,
                "SHIPMENTS_TABLE": self.shipments.table_name,
                "ORDERS_TABLE": self.orders.table_name,
            },
        )
        service.allow_sweep(CreateZip, self.zips)
        return service

    def _grant_create_zip(self) -> None:
        sources, archives = self.zips.arn_for_objects(_SOURCES), self.zips.arn_for_objects(_ARCHIVES)
        check, upload = self.service.function(CreateZip.check), self.service.function(CreateZip.upload)
        for function, objects in ((check, sources), (upload, sources), (upload, archives)):
            acknowledge_objects(function, objects, "The objects of a saga are known only when it starts.")
        _allow(check, ["s3:GetObject"], sources)
        # Without this, S3 answers 403 for a missing object, and a caller's typo would look like a missing permission.
        _allow(check, ["s3:ListBucket"], self.zips.bucket_arn)
        _allow(upload, ["s3:GetObject"], sources)
        _allow(upload, ["s3:PutObject", "s3:AbortMultipartUpload", "s3:DeleteObject"], archives)
        _allow(upload, ["s3:ListBucketMultipartUploads"], self.zips.bucket_arn)
        _allow(self.service.function(CreateZip.announce), ["sns:Publish"], self.announcements.topic_arn)

    def _grant_shop(self) -> None:
        write = ["dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:UpdateItem"]
        for step in (Checkout.reserve, Parcel.pack):
            _allow(self.service.function(step), write, self.stock.table_arn)
        for step in (Checkout.capture, Basket.capture):
            _allow(self.service.function(step), write[:2], self.ledger.table_arn)
        for step in (Checkout.ship, Parcel.book):
            _allow(self.service.function(step), write, self.shipments.table_arn)

    def _grant_approval(self) -> None:
        for step in (Approval.enter, Approval.place):
            _allow(self.service.function(step), ["dynamodb:UpdateItem"], self.orders.table_arn)
        for wait in (Approval.decision, Approval.late_decision):
            _allow(self.service.function(wait), ["sns:Publish"], self.announcements.topic_arn)

    def _show_outputs(self) -> None:
        CfnOutput(self, "ZipsBucket", value=self.zips.bucket_name)
        CfnOutput(self, "AnnounceTopicArn", value=self.announcements.topic_arn)
        CfnOutput(self, "StockTable", value=self.stock.table_name)
        CfnOutput(self, "LedgerTable", value=self.ledger.table_name)
        CfnOutput(self, "ShipmentsTable", value=self.shipments.table_name)
        CfnOutput(self, "OrdersTable", value=self.orders.table_name)
        CfnOutput(self, "ApiUrl", value=self.service.api.url)


def _allow(function: iam.IGrantable, actions: list[str], resource: str) -> None:
    function.grant_principal.add_to_principal_policy(iam.PolicyStatement(actions=actions, resources=[resource]))


def _zips_bucket(scope: Construct) -> s3.Bucket:
    bucket = s3.Bucket(
        scope,
        "Zips",
        encryption=s3.BucketEncryption.S3_MANAGED,
        block_public_access=s3.BlockPublicAccess.BLOCK_ALL,
        enforce_ssl=True,
        removal_policy=_KEPT,
        lifecycle_rules=[s3.LifecycleRule(abort_incomplete_multipart_upload_after=Duration.days(7))],
    )
    acknowledge(
        Validations.of(bucket), {"AwsSolutions-S1": "A demonstration; access logs would need another such bucket."}
    )
    return bucket


def _announcements(scope: Construct) -> sns.Topic:
    key = kms.Alias.from_alias_name(scope, "SnsKey", "alias/aws/sns")
    return sns.Topic(scope, "Announcements", master_key=key, enforce_ssl=True)


def _table(scope: Construct, id: str, key: str) -> dynamodb.Table:
    return dynamodb.Table(
        scope,
        id,
        partition_key=dynamodb.Attribute(name=key, type=dynamodb.AttributeType.STRING),
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        point_in_time_recovery_specification=dynamodb.PointInTimeRecoverySpecification(
            point_in_time_recovery_enabled=True
        ),
        removal_policy=_KEPT,
    )
