"""The pictures of the console in the documentation."""

from __future__ import annotations

from tests.support.pictured import MADE_OF, PICTURES, made_of


def test_show_the_pages_as_they_are() -> None:
    renew = "SAGAS_SCREENSHOTS=docs/images pytest tests/e2e/console/test_pages_in_a_browser.py -k pictures"
    assert (PICTURES / MADE_OF).read_text().strip() == made_of(), f"the pages have changed; renew the pictures: {renew}"
