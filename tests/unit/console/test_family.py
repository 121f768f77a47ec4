"""Parents and children on the page of a saga."""

from __future__ import annotations

from typing import Any

from sagas.console.redaction import ConsoleRedaction
from tests.unit.client.stub import BEGAN, a_saga, a_step, attention
from tests.unit.console.conftest import SAGA, opened, text_of
from tests.unit.console.service import HOSTILE, FakeService, a_type, numbered


def a_family() -> FakeService:
    """A basket of three parcels, of which one has started a saga itself, and one has failed."""

    def child(number: int, status: str, of: int, step: str, position: int, **fields: Any) -> dict[str, Any]:
        name = "label" if step == "labels" else "parcel"
        parent = {"type": "basket", "saga_id": numbered(of), "step": step, "position": position}
        return a_saga(status, type=name, saga_id=numbered(number), parent=parent, **fields)

    counts = {"total": 3, "started": 3, "completed": 1, "failed": 1, "finished": 2 / 3}
    error = {"type": "PermanentError", "message": f"{HOSTILE} takes no parcels of 4111-1111"}
    failure = {
        "position": 2, "type": "parcel", "saga_id": numbered(4), "label": "order o-17", "status": "COMPENSATED",
        "updated_at": BEGAN, "error": error,
    }  # fmt: skip
    of = {**counts, "failures": [failure], "href": f"/sagas?parent={numbered(1)}"}
    parcels = a_step("parcels", "WAITING", waiting_for="children", waits_until=None, children=of)
    service = FakeService(
        [
            a_saga("WAITING", type="basket", saga_id=numbered(1), steps=[a_step("capture"), parcels]),
            child(2, "COMPLETED", 1, "parcels", 0),
            child(
                3,
                "DEAD_LETTERED",
                1,
                "parcels",
                1,
                attention=attention("exhausted", reason="step book used up its attempts"),
            ),
            child(4, "COMPENSATED", 1, "parcels", 2, request={"card": "4111-1111"}, error={"step": "book", **error}),
            child(5, "RUNNING", 3, "labels", 0),
        ]
    )
    starts = [{**a_type()["steps"][0], "name": "parcels", "children": ["parcel"]}]
    prints = [{**a_type()["steps"][0], "name": "labels", "children": ["label"]}]
    service.known_types = [
        a_type("basket", steps=starts),
        a_type("parcel", steps=prints, find_by={"order": "$.order"}),
        a_type("label"),
    ]
    return service


class TestFamily:
    """The children of a saga, and theirs, on its page."""

    def test_all_are_there_with_status_progress_and_errors(self) -> None:
        service = a_family()
        page = opened(service, f"/local/eu-central-1/sagas/basket/{numbered(1)}")
        told = text_of(page)
        assert "67 % of 3 over, 1 completed, 1 failed" in told
        assert f"parcels[2] order o-17 {numbered(4)} COMPENSATED PermanentError:" in told
        assert "takes no parcels of ***" in told
        assert "4111-" not in page  # a child's own secret
        assert "4111-" not in opened(service, f"/local/eu-central-1/sagas/basket/{numbered(1)}/json")
        for part in (
            f"parcels[0] parcel {numbered(2)} COMPLETED",
            f"parcels[1] parcel {numbered(3)} DEAD_LETTERED step book used up its attempts",
            f"labels[0] label {numbered(5)} RUNNING",
        ):
            assert part in told
        assert page.index(numbered(3)) < page.index(numbered(5)), "below the one that has started it"
        assert f'href="/local/eu-central-1/sagas/label/{numbered(5)}"' in page
        assert HOSTILE not in page
        lists = [call[3:] for call in service.asked if call[0] == "list"]
        assert lists == [(numbered(1),), (numbered(2),), (numbered(3),), (numbered(4),)], "a label starts nothing"

    def test_without_payloads_errors_have_their_type_only(self) -> None:
        path = f"/local/eu-central-1/sagas/basket/{numbered(1)}"
        told = text_of(opened(a_family(), path, redaction=ConsoleRedaction(payloads=False)))
        assert f"parcels[2] {numbered(4)} COMPENSATED PermanentError" in told
        assert "takes no parcels" not in told

    def test_a_child_leads_to_its_parent(self) -> None:
        page = opened(a_family(), f"/local/eu-central-1/sagas/parcel/{numbered(3)}")
        assert f"Started by basket {numbered(1)} , step parcels[1]" in text_of(page)
        assert f'href="/local/eu-central-1/sagas/basket/{numbered(1)}"' in page

    def test_a_large_one_is_shown_in_part(self) -> None:
        service = a_family()
        parent = {"type": "basket", "saga_id": numbered(1), "step": "parcels", "position": 0}
        more = (a_saga(type="parcel", saga_id=numbered(number), parent=parent) for number in range(10, 400))
        service.sagas |= {saga["saga_id"]: saga for saga in more}
        service.known_types[1]["steps"][0].pop("children")
        page = opened(service, f"/local/eu-central-1/sagas/basket/{numbered(1)}")
        assert page.count("] parcel ") == 100
        assert f'href="/sagas?parent={numbered(1)}">more of them' in page
        assert sum(call[0] == "list" for call in service.asked) == 2

    def test_a_failed_one_is_named_whether_it_is_shown_or_not(self) -> None:
        service = a_family()
        parent = {"type": "basket", "saga_id": numbered(1), "step": "parcels", "position": 0}
        more = (a_saga(type="parcel", saga_id=numbered(number), parent=parent) for number in range(10, 400))
        failed = service.sagas.pop(numbered(4))
        service.sagas |= {saga["saga_id"]: saga for saga in more}
        service.sagas |= {numbered(4): failed}
        page = opened(service, f"/local/eu-central-1/sagas/basket/{numbered(1)}")
        assert "parcels[2] parcel" not in text_of(page), "it is not among the first hundred"
        assert f'href="/local/eu-central-1/sagas/parcel/{numbered(4)}"' in page
        assert "takes no parcels of ***" in text_of(page)

    def test_a_saga_without_children_is_asked_for_none(self) -> None:
        service = FakeService([a_saga(saga_id=numbered(1))])
        assert "Children" not in text_of(opened(service, SAGA))
        assert not any(call[0] == "list" for call in service.asked)
