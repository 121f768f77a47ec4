"""The CDK app of the convoys: steps in one function for each type, so that a small machine keeps few processes."""

from __future__ import annotations

from functions.checkout import Checkout
from sagas.cdk import FunctionOptions, SagaService
from tests.e2e.convoys.sagas import Carried, Convoy

from aws_cdk import App, CfnOutput, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip

_TABLES = {"Stock": "sku", "Ledger": "payment_key", "Shipments": "shipment_key"}


def main() -> None:
    """Synthesize to ``CDK_OUTDIR``."""
    app = App()
    stack, environment = Stack(app, "Convoys"), dict[str, str]()
    for name, key in _TABLES.items():
        table = dynamodb.Table(
            stack, name, partition_key=dynamodb.Attribute(name=key, type=dynamodb.AttributeType.STRING)
        )
        CfnOutput(stack, f"{name}Table", value=table.table_name)
        environment[f"{name.upper()}_TABLE"] = table.table_name
    SagaService(
        stack,
        "Sagas",
        # Functions have the packages of the sagas. The convoys use the shop of the checkout's package.
        sagas=[Convoy, Carried, Checkout],
        isolation="saga",
        # What a worker had in hand when it was killed comes back when its function's time is over.
        functions={Carried: FunctionOptions(maximum_concurrency=3, timeout=12), Convoy: FunctionOptions(timeout=12)},
        environment=environment,
        log_level="WARNING",
    )
    app.synth()


main()
