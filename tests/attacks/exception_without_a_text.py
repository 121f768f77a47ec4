"""An exception whose `__str__` raises is no failure but a lost attempt: verdicts are not heard, and the record says that nothing was reported.

`failures._failure` asks for `str(error)` outside of any guard. So the error's own error leaves `Attempt.fail`, the record fails, the
lease stays until it expires, and the supervisor or the queue journals StepLost. A step that raises a `Rejected` ("the business said no")
of such a class runs as often as its retries allow; a `PermanentError` or what `give_up_on` names likewise; `on_exhausted` follows only
then, in doubt. `sagas.testing.run` ends with the error itself instead, so no test shows it. Exceptions like that are common: a `__str__`
that reads `self.response.json()["message"]`, or formats what was never set.

Run: python -W ignore -m tests.attacks.exception_without_a_text
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from sagas import Rejected, Retry, Saga, step
from sagas.testing import run
from tests.support.bench import Bench
from tests.support.dynamodb import aws

RAN: list[str] = []


@dataclass(frozen=True)
class Req:
    item: str = "x"


class Declined(Rejected):
    def __init__(self, answer: dict[str, str]) -> None:
        self.answer = answer

    def __str__(self) -> str:
        return self.answer["message"]


class Trip(Saga[Req], name="trip"):
    @step(retry=Retry.constant(max_retries=2, delay=0))
    def pay(self, request: Req) -> None:
        RAN.append("pay")
        raise Declined({})


def main() -> None:
    with aws():
        bench = Bench(Trip)
        saga = bench.start("trip", {"item": "x"})
        for _ in range(8):
            try:
                bench.run()
            except KeyError as error:
                print("left the worker:", repr(error))
            if bench.state(saga).ended:
                break
            bench.clock.advance(120)
            bench.recover()
        shown = bench.show(saga)
        print(shown["status"], shown["error"], "in doubt", shown["in_doubt"], "ran", RAN, bench.actions(saga))
    try:
        print("sagas.testing.run:", run(Trip, Req()).status)
    except KeyError as error:
        print("sagas.testing.run ended with", repr(error))
    print("HELD" if len(RAN) <= 2 else "BROKEN: a step that was rejected ran three times")


main()
