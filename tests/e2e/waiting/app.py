"""The CDK app of the sagas that wait."""

from __future__ import annotations

from sagas.cdk import SagaService
from tests.e2e.waiting.sagas import Asked, Crowd, Nap, Patient

from aws_cdk import App, Stack  # isort: skip - sagas.cdk names the Node that jsii is to use
from aws_cdk import aws_dynamodb as dynamodb  # isort: skip


def waiting_stack(app: App, id: str) -> Stack:
    """Add a stack of sagas that wait, and the table in which they note callback URLs."""
    stack = Stack(app, id)
    key = dynamodb.Attribute(name="saga_id", type=dynamodb.AttributeType.STRING)
    table = dynamodb.Table(stack, "Urls", partition_key=key)
    environment = {"URLS_TABLE": table.table_name}
    service = SagaService(stack, "Sagas", sagas=[Asked, Patient, Crowd, Nap], environment=environment)
    table.grant(service.function(Asked.reply), "dynamodb:PutItem")
    return stack


if __name__ == "__main__":
    app = App()
    waiting_stack(app, "Waiting")
    app.synth()
