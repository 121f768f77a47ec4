"""Times and spans as people read them: those that the console has too."""

from __future__ import annotations

from sagas.core.wording import ago as ago
from sagas.core.wording import between as between
from sagas.core.wording import clock_time as clock_time
from sagas.core.wording import moment as moment
from sagas.core.wording import span as span
