"""What all tests have in common."""

from __future__ import annotations

from functools import cache
from typing import Any, cast

import botocore.session

_session = cast("Any", botocore.session)
_session.create_loader = cache(_session.create_loader)
"""A session reads botocore's models anew, hundreds of kilobytes of JSON, and moto makes a session for each test."""
