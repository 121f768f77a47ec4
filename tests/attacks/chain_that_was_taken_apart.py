"""Steps that shared a function got one function each while a worker was dead in their chain, and the message became a dead letter.

The current message stands for its saga, whatever step of the chain it was sent for (rule 16). But only a function that has the chain
knew that. After the deployment the queue of the first step refused the message ("does not fit its saga") until it was a dead letter,
which raised an alarm for a RUNNING saga. The supervisor continued the saga later, with a new message.

Run: python -W ignore -m tests.attacks.chain_that_was_taken_apart
"""

from __future__ import annotations

import json
import logging
import os
from dataclasses import dataclass

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

import pytest

from sagas import Saga, step
from sagas.handlers import step as step_handler
from tests.support.aws import HandmadeStack, LambdaContext
from tests.support.bench import Bench, Death, deploy_functions
from tests.support.dynamodb import aws

DIES = [True]


@dataclass(frozen=True)
class Req:
    item: str = "x"


class Trip(Saga[Req], name="trip"):
    @step(timeout=5)
    def one(self, request: Req) -> str:
        return "1"

    @step(timeout=5)
    def two(self, one: str) -> str:
        if DIES[0]:
            raise Death
        return "2"


def main() -> None:
    with aws():
        stack = HandmadeStack(Trip)
        apart = json.loads(stack.environment["SAGAS_QUEUES"])
        shared = json.dumps({**apart, "groups": {"trip": {"one": "one", "two": "one"}}})
        with pytest.MonkeyPatch.context() as patch:
            bench = deploy_functions(patch, stack, Bench, SAGAS_CHAIN="*", SAGAS_QUEUES=shared)
            saga = bench.start("trip", {"item": "x"})
            try:
                bench.invoke("trip", "one")
            except Death:
                print("a worker died at step two, the message is that of step one")
        DIES[0] = False
        with pytest.MonkeyPatch.context() as patch:
            bench = deploy_functions(patch, stack, Bench, SAGAS_QUEUES=json.dumps(apart))
            refused = 0
            for _ in range(20):
                bench.clock.advance(30)
                records = stack.receive("trip", "one")
                if not records:
                    break
                answer = step_handler.handler({"Records": records}, LambdaContext(60))
                refused += len(answer["batchItemFailures"])
                url, receipt = stack.queues["trip"]["one"], records[0]["receiptHandle"]
                if not answer["batchItemFailures"]:  # Lambda deletes a message that was handled
                    stack.sqs.delete_message(QueueUrl=url, ReceiptHandle=receipt)
                    continue
                stack.sqs.change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
            letters = bench.dead_letters("trip")
            print(f"after the deployment: refused {refused} times, dead letters: {letters}, saga {bench.status(saga)}")
            for _ in range(10):
                bench.clock.advance(300)
                bench.recover()
                bench.run()
            print("with the supervisor:", bench.status(saga), bench.actions(saga))
        print("BROKEN: a dead letter of a saga that is none" if letters else "HELD")


main()
