"""The pages of dead letters."""

from __future__ import annotations

import pytest

from sagas.client.operate.dead_letters import Kept, Pruned
from sagas.errors import Unavailable
from tests.unit.client.stub import SEQ
from tests.unit.console.conftest import Browser, text_of
from tests.unit.console.service import FakeService, a_letter, dead, numbered


class TestLetters:
    def test_are_looked_at_only_when_one_says_so(self, browser: Browser, service: FakeService) -> None:
        service.letters = [a_letter()]
        assert "m-1" not in browser.get("/letters/create-zip").text
        assert service.did() == []
        told = text_of(browser.submit("/letters/create-zip/look").text)
        for part in (
            "No message of a saga",
            "no JSON <b>",
            "is not JSON",
            "arn:aws:sqs:r:1:q",
            "received 15 times",
            "who: x",
        ):
            assert part in told

    def test_one_is_deleted(
        self, browser: Browser, service: FakeService, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LOGNAME", "ann")
        service.letters = [a_letter()]
        answer = browser.submit("/letters/create-zip/delete", message_id="m-1")
        assert "Message m-1 is deleted." in answer.text
        assert ("delete_letter", "create-zip", "m-1") in service.did()
        assert caplog.messages == ["ann deleted message m-1 from the dead letters of create-zip"]

    def test_the_saga_of_one_is_retried(self, browser: Browser, service: FakeService) -> None:
        service.letters = [a_letter(saga="create-zip", saga_id=numbered(1), reason=""), a_letter(message_id="m-2")]
        page = browser.submit("/letters/create-zip/look").text
        assert page.count(f'action="/sagas/create-zip/{numbered(1)}/retry"') == 1
        assert f'name="seq" value="{SEQ}"' in page
        service.sagas[numbered(1)] |= {"status": "COMPLETED", "attention": None}  # it is needed no more
        assert "/retry" not in browser.submit("/letters/create-zip/look").text

    def test_each_tells_whether_it_could_be_dropped(self) -> None:
        first, second = a_letter(), a_letter(message_id="m-2")

        class Pruning(FakeService):
            def prune(self, name: str, *, dry_run: bool) -> Pruned:
                return Pruned(dry_run, (first,), (Kept(second, "the saga waits for an operator"),))

        service = Pruning([dead()])
        service.letters = [first, second]
        told = text_of(Browser(service).open().submit("/letters/create-zip/prune").text)
        assert "1 would be deleted, 1 stay." in told
        assert told.index("It would be deleted, because no saga needs it.") < told.index(
            "It stays: the saga waits for an operator."
        )

    def test_what_was_done_is_done_whatever_is_seen_afterwards(self, browser: Browser, service: FakeService) -> None:
        service.letters = [a_letter()]
        service.refuses["dead_letters"] = Unavailable("SQS is out of reach", 5)
        answer = browser.submit("/letters/create-zip/delete", message_id="m-1")
        assert answer.status_code == 200
        told = text_of(answer.text)
        assert "Message m-1 is deleted. Reading the remaining messages failed: SQS is out of reach." in told
        assert "none to be seen" not in told
        assert browser.submit("/letters/create-zip/look").status_code == 503

    def test_those_that_sqs_moves_are_not_looked_at_meanwhile(self) -> None:
        service = FakeService()
        assert "SQS moves them back." in Browser(service).open().submit("/letters/create-zip/redrive").text
        assert ("redrive", "create-zip") in service.did()
        assert ("dead_letters", "create-zip") not in service.asked

    def test_of_an_unknown_type(self, browser: Browser) -> None:
        assert browser.get("/letters/none").status_code == 404
