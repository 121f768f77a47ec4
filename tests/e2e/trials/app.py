"""The CDK app of the sagas on trial."""

from __future__ import annotations

from sagas.cdk import FunctionOptions, SagaService
from tests.e2e.trials.sagas import Breaking, Brief, Compensating, Crowded, Dying, Holding, Waiting

from aws_cdk import App, CfnOutput, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip


def trials_stack(app: App, id: str) -> Stack:
    """Add a stack of the sagas on trial, and the table in which they note what was executed."""
    stack = Stack(app, id)
    table = dynamodb.Table(
        stack,
        "Executions",
        partition_key=dynamodb.Attribute(name="saga_id", type=dynamodb.AttributeType.STRING),
        sort_key=dynamodb.Attribute(name="what", type=dynamodb.AttributeType.STRING),
    )
    sagas = [Compensating, Dying, Holding, Brief, Waiting, Breaking, Crowded]
    service = SagaService(
        stack,
        "Sagas",
        sagas=sagas,
        functions={Crowded.act: FunctionOptions(maximum_concurrency=2)},
        environment={"TRIALS_TABLE": table.table_name},
    )
    for step in (one for saga in sagas for one in (saga.begin, saga.act)):
        table.grant(service.function(step), "dynamodb:PutItem")
    CfnOutput(stack, "TrialsTable", value=table.table_name)
    return stack


if __name__ == "__main__":
    app = App()
    trials_stack(app, "Trials")
    app.synth()
