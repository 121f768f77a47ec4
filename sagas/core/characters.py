"""Which characters AWS takes where it speaks XML: those of XML 1.0."""

from __future__ import annotations

import re

NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""A character that SQS takes in no body and no attribute, and S3 in no list of keys."""


def sendable(text: str) -> str:
    """Return JSON text as SQS takes it, which says the same.

    Control characters and halves of characters JSON has escaped already; two more it leaves as they are.
    """
    return text.replace("\ufffe", "\\ufffe").replace("\uffff", "\\uffff")
