"""What the console asks the service for, and how often."""

from __future__ import annotations

from itertools import count

from sagas.console.source import Source
from tests.unit.console.service import FakeService, numbered


def test_an_audit_trail_is_not_read_again_before_the_saga_has_changed(service: FakeService) -> None:
    seconds = count(step=60)
    source = Source(service, lambda: float(next(seconds)))
    asked = ("audit", "create-zip", numbered(1))
    for _ in range(3):
        assert len(source.audit(source.show("create-zip", numbered(1)))) == 1
    assert service.asked.count(asked) == 1
    service.sagas[numbered(1)]["updated_at"] = "2026-11-21T09:49:20.000Z"
    source.audit(source.show("create-zip", numbered(1)))
    assert service.asked.count(asked) == 2
    source.forget()  # something was done
    source.audit(source.show("create-zip", numbered(1)))
    assert service.asked.count(asked) == 3
    source.close()
