"""The CDK app of the sagas on trial."""

from __future__ import annotations

from sagas.cdk import SagaService
from tests.e2e.trials.sagas import Breaking, Compensating, Dying, Holding, Waiting

from aws_cdk import App, CfnOutput, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip


def main() -> None:
    """Synthesize to ``CDK_OUTDIR``."""
    app = App()
    stack = Stack(app, "Trials")
    table = dynamodb.Table(
        stack,
        "Executions",
        partition_key=dynamodb.Attribute(name="saga_id", type=dynamodb.AttributeType.STRING),
        sort_key=dynamodb.Attribute(name="what", type=dynamodb.AttributeType.STRING),
    )
    sagas = [Compensating, Dying, Holding, Waiting, Breaking]
    SagaService(stack, "Sagas", sagas=sagas, environment={"TRIALS_TABLE": table.table_name})
    CfnOutput(stack, "TrialsTable", value=table.table_name)
    app.synth()


main()
