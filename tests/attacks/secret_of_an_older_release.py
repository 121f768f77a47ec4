"""A field or step with a Secret got another name, and stored values showed it in clear text.

The deployed type decided what to hide. A secret field that was renamed or removed no longer fit the type, so it was shown. If the only
secret of a type was the result of a step that was removed, nothing of the type was hidden any more. From the deployment on, every reader
of the API saw the secrets of all finished sagas.

Run: python -W ignore -m tests.attacks.secret_of_an_older_release
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

os.environ |= {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "eu-central-1"}
logging.disable(logging.CRITICAL)

from sagas import Saga, Secret, step
from sagas.authoring.definition.definition import definition_of
from sagas.lock.changes import changes
from sagas.lock.content import content_of
from tests.support.aws import HandmadeStack
from tests.support.bench import Bench
from tests.support.dynamodb import aws


@dataclass(frozen=True)
class Person:
    name: str
    iban: Secret[str]


@dataclass(frozen=True)
class PersonNow:
    name: str
    account: Secret[str] = ""
    iban_country: str = ""


@dataclass(frozen=True)
class Req:
    item: str = "x"


class Before(Saga[Person], name="payout"):
    @step
    def pay(self, request: Person) -> str:
        return "paid"


class After(Saga[PersonNow], name="payout"):
    @step
    def pay(self, request: PersonNow) -> str:
        return "paid"


class TokenBefore(Saga[Req], name="token"):
    @step
    def make(self, request: Req) -> Secret[str]:
        return "s3cr3t-token"

    @step
    def tell(self, request: Req) -> str:
        return "told"


class TokenAfter(Saga[Req], name="token"):
    @step
    def tell(self, request: Req) -> str:
        return "told"


def main() -> None:
    leaked = False
    for old, new, request, secret in (
        (Before, After, {"name": "Ada", "iban": "DE00 1234"}, "DE00 1234"),
        (TokenBefore, TokenAfter, {"item": "x"}, "s3cr3t-token"),
    ):
        for one in changes(content_of([definition_of(old)]), [definition_of(new)]):
            print("sagas check:", "STOPS" if one.breaks else "fits ", str(one)[:150])
        with aws():
            name = definition_of(old).name
            bench = Bench(stack=HandmadeStack(old, prefix=name))
            saga = bench.start(name, request)
            bench.run()
            before = bench.show(saga)
            bench.engine = bench.deploy(new)
            after = bench.show(saga)
            for when, shown in (("before", before), ("after", after)):
                print(
                    f"  {when} the deployment, {shown['status']}:",
                    shown["request"],
                    [one["result"] for one in shown["steps"]],
                )
            leaked = leaked or (secret not in str(before) and secret in str(after))
    print("BROKEN: what was hidden is shown" if leaked else "HELD")


main()
