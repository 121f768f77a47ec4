"""The plan of faults is a function of seed and coordinate, and strikes once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError

from tests.soak.faults import CALM, Injector, Kind, Settings, drawn, saga_of, struck
from tests.soak.lives import lives

_COORDINATES = [f"step/trade/{number}|{request}" for number in range(200) for request in range(10)]


def _settings(directory: Path, rate: float = 0.3, seed: int = 7) -> Settings:
    return Settings(seed, rate, str(directory))


def _plan(settings: Settings, operation: str) -> list[Kind | None]:
    return [drawn(settings, operation, coordinate) for coordinate in _COORDINATES]


def test_the_same_seed_plans_the_same(tmp_path: Path) -> None:
    first, again, other = (_settings(tmp_path), _settings(tmp_path), _settings(tmp_path, seed=8))
    assert _plan(first, "PutItem") == _plan(again, "PutItem") != _plan(other, "PutItem")
    assert lives(7, 200, faulty=True) == lives(7, 200, faulty=True) != lives(8, 200, faulty=True)


def test_every_kind_is_planned_at_about_its_rate(tmp_path: Path) -> None:
    plain, sending = (Counter(_plan(_settings(tmp_path, 0.1), name)) for name in ("PutItem", "SendMessage"))
    assert set(plain) | set(sending) == {None, *Kind}
    assert 0.07 < 1 - plain[None] / len(_COORDINATES) < 0.13
    assert sending[Kind.DROPPED] > 100 < sending[Kind.DOUBLED]
    assert plain[Kind.DROPPED] == plain[Kind.DOUBLED] == 0


def _requests(injector: Injector, where: str, sent: list[str]) -> list[Any]:
    """Ten requests, without those that would kill this process."""
    answers: list[Any] = []
    with injector.invocation(where):
        for _ in range(10):
            try:
                answers.append(injector.request("GetItem", {"Key": {"saga_id": {"S": "s"}}}, lambda: sent.append("x")))
            except (ClientError, ConnectTimeoutError, ReadTimeoutError) as error:
                answers.append(type(error))
    return answers


def test_what_strikes_is_counted_and_strikes_once(tmp_path: Path) -> None:
    seed = next(seed for seed in range(99) if not _kills(_settings(tmp_path, 1.0, seed)))
    injector, sent = Injector(_settings(tmp_path, 1.0, seed)), list[str]()
    (tmp_path / CALM).touch()
    assert _requests(injector, "step/1", sent) == [None] * 10
    (tmp_path / CALM).unlink()
    disturbed = _requests(injector, "step/1", sent)
    assert any(disturbed)
    assert len(struck(tmp_path)) == 10
    assert all(one.coordinate.startswith("step/1|MainThread|GetItem|s|") for one in struck(tmp_path))
    assert _requests(injector, "step/1", sent) == [None] * 10


def _kills(settings: Settings) -> bool:
    about = "step/1|MainThread|GetItem|s"
    planned = {drawn(settings, "GetItem", f"{about}|{number}") for number in range(1, 11)}
    return bool(planned & {Kind.KILLED_BEFORE, Kind.KILLED_AFTER})


@pytest.mark.parametrize(
    "parameters",
    [
        {"Key": {"saga_id": {"S": "s"}}},
        {"Item": {"saga_id": {"S": "s"}}},
        {"MessageBody": '{"saga_id":"s"}'},
        {"TransactItems": [{"Put": {"Item": {"saga_id": {"S": "s"}}}}, {"Update": {"Key": {"saga_id": {"S": "t"}}}}]},
    ],
)
def test_a_request_tells_its_saga(parameters: dict[str, Any]) -> None:
    assert saga_of(parameters) == "s"
    assert saga_of({"Key": {"sku": {"S": "book"}}}) == ""
