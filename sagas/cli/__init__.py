"""The ``sagas`` command. Its package is loaded without the packages of the extra ``cli``."""

from __future__ import annotations

import sys


def run() -> None:
    """Run the command, or say which extra it needs."""
    try:
        from sagas.cli.main import main
    except ModuleNotFoundError as error:
        if (error.name or "sagas").startswith("sagas"):
            raise
        sys.exit(f'the command needs the package {error.name}: pip install "lambda-sagas[cli]"')
    main()
