"""What was Secret when a saga stored it is shown in clear text once the field, or the step, has another name.

What is hidden is decided by the deployed type. A secret field that was renamed, or removed, counts as "what does not fit the type" and is
shown; and where the only secret of a type was the result of a step that is gone, nothing of the type hides any more, so that result is
shown as well. `sagas check` names the change as one of sagas in flight; of the finished sagas, which keep their payloads until they are
purged, nothing is said. Whoever may read the API reads every IBAN of the last release from the moment of the deployment.

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
