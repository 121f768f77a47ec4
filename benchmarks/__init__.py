"""What a saga costs, here and in the designs it replaces: ``python -m benchmarks``, explained in ``README.md``."""
