"""All tests have AWS's requests validated, those of emulated functions too: set before any imports ``sagas.aws``."""

import os

os.environ["SAGAS_VALIDATE_REQUESTS"] = "1"
