"""``python -m demo``: runs the demonstration, and exits with 0 only if all its checks pass."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from demo.approval import answer_nothing, approve_late
from demo.archive import archive_files
from demo.basket import fail_to_ship, ship
from demo.letters import redrive
from demo.shop import buy, fail_to_buy, open_shop
from demo.show import console, show_books, show_children, show_timeline
from demo.stack import Api, DemoFailed, LocalStack, local_stack

ROOT = Path(__file__).resolve().parents[1]


def _event(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "events" / name).read_text())


def _zip(stack: LocalStack, api: Api) -> None:
    console.rule("A saga zips files of this repository")
    saga, compared = archive_files(stack, api, ROOT)
    show_timeline(saga, api.audit(saga))
    console.print(f"[green]{compared}[/]")


def _shop(stack: LocalStack, api: Api) -> None:
    served, unservable = _event("checkout.json"), _event("checkout_unservable.json")
    shop = open_shop(stack, served["items"])
    console.rule("A checkout succeeds")
    saga, before, after = buy(api, shop, served)
    show_timeline(saga, api.audit(saga))
    show_books(before, after)
    console.rule("A checkout fails at its last step and is undone")
    saga, before, after = fail_to_buy(api, shop, unservable)
    show_timeline(saga, api.audit(saga))
    show_books(before, after)
    console.print("[green]Stock and ledger are as if it had never started. The audit trail shows that it did.[/]")


def _basket(stack: LocalStack, api: Api) -> None:
    served, unservable = _event("basket.json"), _event("basket_unservable.json")
    shop = open_shop(stack, [item for parcel in served["parcels"] for item in parcel["items"]])
    console.rule("Three carriers take the parcels of one basket, each parcel a saga of its own")
    saga, before, after = ship(api, shop, served)
    show_timeline(saga, api.audit(saga))
    show_children(api.children(saga))
    show_books(before, after)
    console.rule("One of three carriers refuses: the other parcels and the payment are undone")
    saga, before, after = fail_to_ship(api, shop, unservable)
    show_timeline(saga, api.audit(saga))
    show_children(api.children(saga))
    show_books(before, after)
    console.print("[green]The books balance, as if the basket and its parcels had never existed.[/]")


def _letters(stack: LocalStack, api: Api) -> None:
    console.rule("A saga waits in the dead-letter queue, and completes when it is redriven")
    saga, waited = redrive(stack, api)
    show_timeline(saga, api.audit(saga))
    console.print(f"[green]{waited}.[/]")


def _approval(stack: LocalStack, api: Api) -> None:
    request = _event("approval.json")
    console.rule("An order waits for an approval, with a reminder after a day. The day is skipped")
    saga = approve_late(stack, api, request)
    show_timeline(saga, api.audit(saga))
    console.rule("Nobody answers for three days: the order is withdrawn")
    saga = answer_nothing(stack, api, request)
    show_timeline(saga, api.audit(saga))
    console.print("[green]While it waited, nothing ran and nothing was locked. The days took seconds.[/]")


def main() -> int:
    """Run the demonstration, and return the exit code."""
    begin = time.monotonic()
    console.print("Starting the local stack: tables, queues, functions and API in an embedded emulator ...")
    try:
        with local_stack() as stack:
            api = Api(stack)
            console.print(f"Ready after {time.monotonic() - begin:.1f} s: {stack.description['api_url']}")
            _zip(stack, api)
            _shop(stack, api)
            _basket(stack, api)
            _letters(stack, api)
            _approval(stack, api)
    except DemoFailed as error:
        console.print(f"[red]The demonstration failed: {error}[/]")
        return 1
    console.print(
        f"\nEverything shown was checked. {time.monotonic() - begin:.1f} s. Next: `make run`, then README.md."
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
