"""Which port the emulator takes."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from sagas.local import process
from sagas.local.errors import LocalStackError
from sagas.local.process import port_for


@pytest.fixture
def taken() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


def test_a_second_stack_takes_a_free_port(taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "_PORT", taken)
    assert port_for(None, None) not in (0, taken)


def test_a_port_that_is_asked_for_is_not_replaced(taken: int) -> None:
    with pytest.raises(LocalStackError, match=f"cannot use port {taken} .*; choose another with --port"):
        port_for(taken, None)


def test_stored_state_keeps_its_port(tmp_path: Path, taken: int) -> None:
    free = port_for(None, None)
    (tmp_path / "port").write_text(f"{free}\n")
    assert port_for(None, tmp_path) == free
    with pytest.raises(LocalStackError, match=f"stored with port {free}; add --port {free}"):
        port_for(taken, tmp_path)
    (tmp_path / "port").write_text(f"{taken}\n")
    with pytest.raises(LocalStackError, match=f"cannot use port {taken}"):
        port_for(None, tmp_path)
