"""The CDK app of the soaked sagas. Its functions begin in ``tests.soak.entry``, where the faults are."""

from __future__ import annotations

import os

from functions.checkout import Checkout
from sagas.cdk import FunctionOptions, SagaService
from tests.soak.sagas import CLASSES
from tests.soak.work import SERVICE

from aws_cdk import App, CfnOutput, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip
from aws_cdk import aws_lambda as lambda_  # isort: skip
from aws_cdk import aws_sqs as sqs  # isort: skip

_ENTRIES = {
    "sagas.handlers.step.handler": "tests.soak.entry.step.handler",
    "sagas.handlers.api.handler": "tests.soak.entry.api.handler",
    "sagas.handlers.supervisor.handler": "tests.soak.entry.supervisor.handler",
    "sagas.handlers.now.handler": "tests.soak.entry.now.handler",
}
_TABLES = {"Stock": "sku", "Ledger": "payment_key", "Shipments": "shipment_key"}
_TIMES = 6
"""How much sooner than it would a message comes back: what a dead function had is delivered again while the soak lasts,
and others arrive while their function still runs, which a claim has to make harmless."""


def _tables(stack: Stack) -> dict[str, dynamodb.Table]:
    def table(name: str, key: str, sort: str | None = None) -> dynamodb.Table:
        text = dynamodb.AttributeType.STRING
        made = dynamodb.Table(
            stack,
            name,
            partition_key=dynamodb.Attribute(name=key, type=text),
            sort_key=dynamodb.Attribute(name=sort, type=text) if sort else None,
            billing_mode=dynamodb.BillingMode.PAY_PER_REQUEST,
        )
        CfnOutput(stack, f"{name}Table", value=made.table_name)
        return made

    tables = {name: table(name, key) for name, key in _TABLES.items()}
    return tables | {"Executions": table("Executions", "saga_id", "what")}


def _disturb(service: SagaService) -> None:
    """Have every function begin where the faults are, and lost messages come back soon."""
    nodes = service.node.find_all()
    functions = [one for one in nodes if isinstance(one, lambda_.CfnFunction) and one.handler in _ENTRIES]
    # The API's function has the code of all sagas. Those of a saga lack what only others import: where the faults are.
    (everything,) = (one.code for one in functions if one.handler == "sagas.handlers.api.handler")
    for function in functions:
        function.code, function.handler = everything, _ENTRIES[function.handler or ""]
    for node in nodes:
        if isinstance(node, sqs.CfnQueue) and node.visibility_timeout is not None:
            node.visibility_timeout = int(node.visibility_timeout) // _TIMES + 1


def main() -> None:
    """Synthesize to ``CDK_OUTDIR``."""
    app = App()
    stack = Stack(app, "Soak")
    tables = _tables(stack)
    by_step = os.environ["SOAK_ISOLATION"] == "step"
    few = FunctionOptions(maximum_concurrency=2 if by_step else 3)
    service = SagaService(
        stack,
        "S",
        sagas=CLASSES,
        service_id=SERVICE,
        functions=dict.fromkeys(CLASSES, few),
        isolation="step" if by_step else "saga",
        log_level="WARNING",
        environment={
            "STOCK_TABLE": tables["Stock"].table_name,
            "LEDGER_TABLE": tables["Ledger"].table_name,
            "SHIPMENTS_TABLE": tables["Shipments"].table_name,
            "SOAK_EXECUTIONS": tables["Executions"].table_name,
            "SOAK_FAULTS": os.environ["SOAK_FAULTS"],
        },
    )
    assert Checkout in CLASSES  # functions/ is deployed with it, and the other sagas book by means of it
    _disturb(service)
    app.synth()


main()
