"""The CDK app of the sagas on trial, and of those that wait."""

from __future__ import annotations

from sagas.cdk import FunctionOptions, SagaService
from tests.e2e.trials.sagas import Breaking, Brief, Compensating, Crowded, Dying, Holding, Waiting
from tests.e2e.trials.waits import Asked, Crowd, Nap, Patient, Reminder

from aws_cdk import App, CfnOutput, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip


def trials_stack(app: App, id: str) -> Stack:
    """Add a stack of the sagas, the table of what was executed, and the table in which callback URLs are noted."""
    stack = Stack(app, id)
    key = dynamodb.Attribute(name="saga_id", type=dynamodb.AttributeType.STRING)
    what = dynamodb.Attribute(name="what", type=dynamodb.AttributeType.STRING)
    executions = dynamodb.Table(stack, "Executions", partition_key=key, sort_key=what)
    urls = dynamodb.Table(stack, "Urls", partition_key=key)
    on_trial = [Compensating, Dying, Holding, Brief, Waiting, Breaking, Crowded]
    service = SagaService(
        stack,
        "Sagas",
        sagas=[*on_trial, Asked, Patient, Crowd, Nap, Reminder],
        functions={Crowded.act: FunctionOptions(maximum_concurrency=2)},
        environment={"TRIALS_TABLE": executions.table_name, "URLS_TABLE": urls.table_name},
    )
    for step in (one for saga in on_trial for one in (saga.begin, saga.act)):
        executions.grant(service.function(step), "dynamodb:PutItem")
    urls.grant(service.function(Asked.reply), "dynamodb:PutItem")
    CfnOutput(stack, "TrialsTable", value=executions.table_name)
    CfnOutput(stack, "UrlsTable", value=urls.table_name)
    return stack


if __name__ == "__main__":
    app = App()
    trials_stack(app, "Trials")
    app.synth()
