"""The CDK app of a service in an API, and on tables, of its app's own."""

from __future__ import annotations

from sagas.cdk import SagaService
from tests.e2e.isolation.sagas import Relay

from aws_cdk import App, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_apigateway as apigateway  # isort: skip
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip

_INDEXES = {
    "open": ("open_shard", "due"),
    "by_name": ("name_shard", "created_at"),
    "ended": ("ended", "ended_at"),
    "attention": ("attention_shard", "attention_at"),
}


def main() -> None:
    """Synthesize to ``CDK_OUTDIR``."""
    app = App()
    stack = Stack(app, "Mounted")
    sagas, audit = _table(stack, "Mine"), _table(stack, "History", sort="seq")
    for name, (partition, sort) in _INDEXES.items():
        sagas.add_global_secondary_index(
            index_name=name,
            partition_key=_attribute(partition),
            sort_key=_attribute(sort),
            projection_type=dynamodb.ProjectionType.KEYS_ONLY,
        )
    api = apigateway.RestApi(stack, "Shop")
    mount = api.root.add_resource("shop").add_resource("orders")
    SagaService(stack, "Sagas", sagas=[Relay], sagas_table=sagas, audit_table=audit, mount=mount, isolation="saga")
    app.synth()


def _attribute(name: str, kind: dynamodb.AttributeType = dynamodb.AttributeType.STRING) -> dynamodb.Attribute:
    return dynamodb.Attribute(name=name, type=kind)


def _table(stack: Stack, id: str, sort: str | None = None) -> dynamodb.Table:
    return dynamodb.Table(
        stack,
        id,
        partition_key=_attribute("saga_id"),
        sort_key=_attribute(sort, dynamodb.AttributeType.NUMBER) if sort else None,
        billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        time_to_live_attribute="expires_at",
    )


if __name__ == "__main__":
    main()
