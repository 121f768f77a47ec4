"""What is shown as text only, and what is not shown at all."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from sagas.console.links import Links, links_of
from sagas.console.redaction import ConsoleRedaction, redaction_of
from sagas.errors import InvalidRequest, SagaError
from tests.unit.client.stub import BEGAN, a_step, attention
from tests.unit.console.conftest import LATER, SAGA, Browser, opened, text_of
from tests.unit.console.service import HOSTILE, FakeService, a_letter, a_type, an_entry, dead, numbered

BIDI = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""All controls of the writing direction."""
REVERSED = f"photo{BIDI}gpj.exe"
PLACES = ("/", "/sagas", "/types", "/types/create-zip", "/letters", SAGA)


def _service_of(text: str) -> FakeService:
    """A service that has the text wherever others write it."""
    error = {"type": text, "message": text}
    saga = dead(1, request={text: text}, correlation_id=text, error={"step": "announce", **error})
    progress = {"step": "upload", "fraction": 0.5, "message": text, "at": BEGAN}
    saga |= {
        "label": text,
        "key": text,
        "progress": progress,
        "attention": attention(text),
        "steps": [a_step("upload", result=text), a_step("announce", "FAILED", error=error)],
    }
    service = FakeService([saga])
    details = {"error": error, "reason": text, "stack_trace": text}
    service.entries.append(an_entry(2, "StepFailed", "announce", actor=text, trace_id=text, details=details))
    service.known_types = [a_type(description=text, reason=text, active=False, find_by={"order": "$.order"})]
    service.letters = [a_letter(body=text, attributes={text: text}, source=text, reason=text)]
    return service


class TestHostileTexts:
    """Whatever a caller, a step or a sender wrote is shown as text."""

    @pytest.fixture
    def service(self) -> FakeService:
        return _service_of(HOSTILE)

    @pytest.mark.parametrize(
        "path", [*PLACES, f"/search?q=x{HOSTILE.replace('=', '')}", f"/sagas?text={HOSTILE}", f"/?kind={HOSTILE}"]
    )
    def test_run_nowhere(self, service: FakeService, path: str) -> None:
        page = opened(service, path)
        assert "<img" not in page
        assert (
            "document.title=" not in re.sub(r"&lt;.*?&gt;", "", page.replace("&#39;", "'"))
            or "<script>document" not in page
        )
        assert page.count("<script") == 2
        assert "49" not in re.findall(r"\{\{7\*7\}\}|49", text_of(page))

    def test_in_a_dead_letter(self, service: FakeService) -> None:
        page = Browser(service).open().submit("/letters/create-zip/look").text
        assert "<img" not in page
        assert page.count("<script") == 2


class TestWritingDirection:
    """A text whose letters stand in another order than they are read is shown with what does that."""

    @pytest.mark.parametrize("path", [*PLACES, f"/?kind={REVERSED}"])
    def test_is_changed_by_nothing_that_is_shown(self, path: str) -> None:
        page = opened(_service_of(REVERSED), path)
        assert not set(page) & set(BIDI)

    def test_is_shown_as_escapes(self) -> None:
        saga = dead(1, request={"file": REVERSED})
        assert '"file": "photo\\u061c' in text_of(opened(FakeService([saga]), SAGA))
        assert "\\u202e" in text_of(Browser(_service_of(REVERSED)).open().submit("/letters/create-zip/look").text)

    def test_is_kept_in_what_a_form_sends_again(self) -> None:
        page = opened(FakeService([dead()]), f"/sagas?text={REVERSED}")
        assert f'name="text" value="{REVERSED}"' in page


class TestLabels:
    """They are made of search keys, so they are hidden if one of these is hidden in the request."""

    @pytest.mark.parametrize(
        ("find_by", "rules", "shown"),
        [
            ({"order": "$.order.id"}, ConsoleRedaction(), True),
            ({"order": "$.order.id"}, ConsoleRedaction(payloads=False), False),
            ({"order": "$.order.id", "number": "$.card.number"}, ConsoleRedaction(), False),
            ({"order": "$.order.id"}, ConsoleRedaction(anywhere=frozenset({"order"})), False),
            ({"order": "$.order.id"}, ConsoleRedaction(places=frozenset({("order", "id")})), False),
            ({"order": "$.order.id"}, ConsoleRedaction(places=frozenset({("order", "name")})), True),
            ({"order": "$.items[1]"}, ConsoleRedaction(places=frozenset({("items", "[0]")})), True),
            ({"order": "$.items[1]"}, ConsoleRedaction(places=frozenset({("items", "[*]")})), False),
            ({}, ConsoleRedaction(), False),
        ],
    )
    @pytest.mark.parametrize("path", ["/", "/sagas", "/sagas/all?type=create-zip", "/search?q=create-zip", SAGA])
    def test_are_shown_unless_the_request_would_hide_them(
        self, path: str, find_by: dict[str, str], rules: ConsoleRedaction, shown: bool
    ) -> None:
        service = FakeService([dead(number, label=f"order o-{number}") for number in (1, 2)])
        service.known_types = [a_type(find_by=find_by)]
        page = opened(service, path, redaction=rules)
        assert ("order o-1" in page) is shown
        assert ("order o-1" in opened(service, f"{SAGA}/json", redaction=rules)) is shown

    def test_are_hidden_without_the_types(self) -> None:
        service = FakeService([dead(1, label="order o-1")])
        service.known_types = []
        assert "order o-1" not in opened(service, SAGA)


class TestRedaction:
    def test_secrets_by_name_are_in_no_answer(self, service: FakeService) -> None:
        secret = "4111-1111-1111-1111"
        service.sagas[numbered(1)] |= {
            "request": {"card_number": secret, "deep": [{"userPassword": {"now": "hunter22"}}], "x": 1},
            "error": {"step": "announce", "type": "Denied", "message": f"the card {secret} was denied"},
        }
        service.entries.append(an_entry(2, "StepFailed", "upload", details={"stack_trace": f"card={secret} hunter22"}))
        for path in ("/", "/sagas", SAGA, f"{SAGA}/json"):
            page = opened(service, path)
            assert secret not in page
            assert "hunter22" not in page

    @pytest.mark.parametrize("path", ["/", "/sagas", "/sagas?text=denied", "/sagas/all?type=create-zip"])
    def test_what_a_list_tells_of_errors_is_hidden_too(self, service: FakeService, path: str) -> None:
        secret, full = "4111-1111-1111-1111", f"{'x' * 190} 4111-1111-1111-1111 was denied"
        failed = {"step": "announce", "type": "Denied", "message": full}
        cut = {**failed, "message": full[:200]}
        for saga in service.sagas.values():
            saga |= {"request": {"card": secret}, "error": failed, "attention": attention("exhausted", cut)}
            saga["steps"][2]["error"] = {"type": "Denied", "message": full}
        page = opened(service, path)
        assert "Denied: xxx" in page
        assert "*** was denied" in page or path != "/"
        assert "4111-" not in page
        service.refuses["show"] = SagaError("the API refused the call")
        page = opened(service, path)
        assert "Denied" in page
        assert "4111-" not in page
        service.refuses.clear()
        page = opened(service, path, redaction=ConsoleRedaction(payloads=False))
        assert "Denied" in page
        assert "xxx" not in page

    def test_what_is_hidden_may_be_like_an_id_or_a_time(self, service: FakeService) -> None:
        hidden = {"card_year": "2026", "card_last": "30a8", "token": "announce", "secret": "DEAD_LETTERED"}
        failed = {"step": "announce", "type": "Denied", "message": "the card of 2026 with 30a8"}
        entry = an_entry(2, "StepFailed", "announce", details={"started_at": BEGAN, "error": failed})
        service.entries.append(entry)
        service.sagas[numbered(1)] |= {"request": {**hidden, "name": "in 2026"}, "error": failed}
        page = opened(service, SAGA)
        assert numbered(1) in page
        assert f'datetime="{BEGAN}"' in page
        assert f'action="/sagas/create-zip/{numbered(1)}/retry"' in page
        told = text_of(page)
        assert "the card of *** with ***" in told
        assert '"name": "in ***"' in told

    @pytest.mark.parametrize(
        "body", [r'{"a": "\ud800"}', "[" * 300 + "]" * 300, "[" * 900 + "]" * 900, "[" * 100_000, '{"a":' * 400 + "1"]
    )
    def test_a_message_that_can_hardly_be_read_hides_no_other(self, service: FakeService, body: str) -> None:
        service.letters = [a_letter(body=body), a_letter(message_id="m-2", body="the other")]
        answer = Browser(service).open().submit("/letters/create-zip/look")
        assert answer.status_code == 200
        assert "the other" in answer.text
        service.sagas[numbered(1)] |= {"request": body}
        for path in (SAGA, f"{SAGA}/json"):
            opened(service, path)

    def test_what_a_message_carries_is_hidden_too(self, service: FakeService) -> None:
        carried = json.dumps({"order": "o-1", "card": "4111-1111", "list": [{"password": "hunter22"}]})
        service.letters = [
            a_letter(body=json.dumps({"saga": "x", "inputs": [[1, "salt", "hash", carried]]}), reason="")
        ]
        page = Browser(service).open().submit("/letters/create-zip/look").text
        assert "o-1" in page
        assert "4111-1111" not in page
        assert "hunter22" not in page

    def test_a_project_names_more(self, tmp_path: Path, service: FakeService) -> None:
        paths = '["iban_like", "$.customer.name"]'
        (tmp_path / "pyproject.toml").write_text(f"[tool.sagas.console]\nredact = {paths}\n")
        service.sagas[numbered(1)]["request"] = {
            "customer": {"name": "Ann Smith", "age": 7},
            "a": [{"iban_like": "DE99"}],
            "name": "kept",
        }
        page = opened(service, SAGA, redaction=redaction_of(tmp_path))
        assert "Ann Smith" not in page
        assert "DE99" not in page
        assert "kept" in page
        assert redaction_of(tmp_path / "none") == ConsoleRedaction()

    def test_one_path_needs_no_list(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text('[tool.sagas.console]\nredact = "$.a"\n')
        assert redaction_of(tmp_path).places == {("a",)}

    def test_items_are_named_by_place_or_all(self) -> None:
        paths = {("items", "[*]", "pin"), ("items", "[1]"), ("whole",)}
        hidden: list[str] = []
        data = {"items": [{"pin": 1, "x": 2}, {"x": 3}, {"pin": 4}], "whole": [5], "pin": 6}
        shown = ConsoleRedaction(places=frozenset(paths)).apply(data, hidden)
        assert shown == {"items": [{"pin": "***", "x": 2}, "***", {"pin": "***"}], "whole": "***", "pin": 6}
        assert sorted(hidden) == ["1", "3", "4", "5"]
        assert ConsoleRedaction(places=frozenset({()})).apply({"a": "b"}, []) == "***"

    @pytest.mark.parametrize("wrong", ['["$..a"]', '["a.b"]', "[1]", '["$.a["]'])
    def test_a_wrong_path_is_refused(self, tmp_path: Path, wrong: str) -> None:
        (tmp_path / "pyproject.toml").write_text(f"[tool.sagas.console]\nredact = {wrong}\n")
        with pytest.raises(InvalidRequest, match="redact"):
            redaction_of(tmp_path)

    def test_a_project_says_where_traces_and_logs_are(self, tmp_path: Path) -> None:
        (tmp_path / "pyproject.toml").write_text(
            '[tool.sagas.console]\ntrace_url = "https://t.example/{trace_id}"\nlogs_url = "https://l.example/?q={saga_id}"\n'
        )
        links = links_of(tmp_path)
        assert links.trace("a/b c") == "https://t.example/a%2Fb%20c"
        assert links.logs("id-1", BEGAN, LATER) == "https://l.example/?q=id-1"
        assert Links().trace("1-5f84c7a1-012345678901234567890123") == Links("r").trace("nonsense") == ""
        for wrong in ('trace_url = "javascript:{trace_id}"', 'logs_url = "https://l.example"', "logs_url = 1"):
            (tmp_path / "pyproject.toml").write_text(f"[tool.sagas.console]\n{wrong}\n")
            with pytest.raises(InvalidRequest, match=r"_url: must be an http URL"):
                links_of(tmp_path)

    @pytest.mark.parametrize(
        ("text", "told"),
        [
            ("[tool.sagas.console]\nredacts = []", "redacts: unknown key; expected one of redact, trace_url, logs_url"),
            ("[tool.sagas]\nconsole = 3", "must be a table"),
            ("[tool]\nsagas = [1]", "must be a table"),
        ],
    )
    def test_what_a_project_says_of_nothing_is_refused(self, tmp_path: Path, text: str, told: str) -> None:
        """A slip of the pen shows no secret."""
        (tmp_path / "pyproject.toml").write_text(text)
        with pytest.raises(InvalidRequest, match=told):
            redaction_of(tmp_path)

    def test_without_payloads_there_are_none(self, service: FakeService) -> None:
        service.sagas[numbered(1)] |= {
            "request": {"order": "o-12345"},
            "steps": [a_step("upload", result={"etag": "e-1234"})],
        }
        service.letters = [a_letter(body=json.dumps({"order": "o-12345"}))]
        browser = Browser(service, redaction=ConsoleRedaction(payloads=False)).open()
        for page in (
            browser.get(SAGA).text,
            browser.get(f"{SAGA}/json").text,
            browser.submit("/letters/create-zip/look").text,
        ):
            assert "o-12345" not in page
            assert "e-1234" not in page
