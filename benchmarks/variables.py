"""The environment variables that tell a function what it is."""

from __future__ import annotations

DIRECTORY = "BENCHMARK_DIRECTORY"
"""Where it leaves its marks."""
HANDLER = "BENCHMARK_HANDLER"
"""What it calls, ``package.module.function``."""
VARIANT = "BENCHMARK_VARIANT"
"""Whose it is."""
ROLE = "BENCHMARK_ROLE"
"""What it is for: ``start``, ``step``, ``bare``, or ``supervisor``."""
STEP = "STEP"
"""Which step it runs, where it is not a function of ours."""
RECORD = "BENCHMARK_RECORD"
"""Set while it notes its requests instead of being measured."""
DURABLE_FUNCTION = "benchmark-durable"
"""The name of the durable function, which the driver makes: the emulator drops what a template says of it."""
