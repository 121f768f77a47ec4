"""The saga of all variants, as a class: five steps that each take what the one before returned, and three undos."""

from __future__ import annotations

from dataclasses import dataclass

from sagas import Rejected, Saga, step


@dataclass(frozen=True)
class Order:
    """What is bought. ``refused``: the last step says no, so that the first three are undone."""

    order_id: str
    amount: int
    refused: bool = False


@dataclass(frozen=True)
class Done:
    """What a step did, and under which number."""

    what: str
    number: str


class Purchase(Saga[Order], name="purchase"):
    """Reserves, charges, packs, ships, notifies."""

    @step
    def reserve(self, request: Order) -> Done:
        return Done("reserve", request.order_id)

    @reserve.compensate
    def release(self, reserve: Done) -> None:
        assert reserve.what == "reserve"

    @step
    def charge(self, request: Order, reserve: Done) -> Done:
        return Done("charge", reserve.number)

    @charge.compensate
    def refund(self, charge: Done) -> None:
        assert charge.what == "charge"

    @step
    def pack(self, request: Order, charge: Done) -> Done:
        return Done("pack", charge.number)

    @pack.compensate
    def unpack(self, pack: Done) -> None:
        assert pack.what == "pack"

    @step
    def ship(self, request: Order, pack: Done) -> Done:
        return Done("ship", pack.number)

    @step
    def notify(self, request: Order, ship: Done) -> Done:
        if request.refused:
            raise Rejected("refused")
        return Done("notify", ship.number)
