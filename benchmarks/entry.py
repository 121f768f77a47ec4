"""Where every function begins: the handler named by the environment, measured alike for all variants.

A function whose environment asks for it is not measured, but notes its requests.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks.marks import Mark, Pen
from benchmarks.variables import DIRECTORY, HANDLER, RECORD, ROLE, VARIANT

_SAGA_ID = re.compile(r'saga_id\\*": ?\\*"([^"\\]+)')
"""Also in JSON that is text in other JSON."""
_directory = Path(os.environ[DIRECTORY])
_variant, _role = os.environ[VARIANT], os.environ[ROLE]
_pen = Pen(_directory)
_notes: Any = None
if RECORD in os.environ:
    from benchmarks.notes import Notes

    _notes = Notes(_directory, _variant, _role)
_module, _name = os.environ[HANDLER].rsplit(".", 1)
_handle = getattr(import_module(_module), _name)


def handler(event: dict[str, Any], context: Any) -> Any:
    """Handle an event as the function does, and leave a mark."""
    begun, cpu = time.monotonic(), time.process_time()
    try:
        return _handle(event, context)
    finally:
        used, ended = time.process_time() - cpu, time.monotonic()
        saga_ids = tuple(dict.fromkeys(_SAGA_ID.findall(json.dumps(event))))
        if _notes is not None:
            _notes.add(saga_ids, begun)
        _pen.write(Mark(_variant, _role, saga_ids, begun, ended, used))
        # The emulator waits for what a function writes, 50 ms long if it is nothing.
        sys.stderr.write(".\n")
