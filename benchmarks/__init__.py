"""Benchmarks: each a ratio between alternatives, measured in one run. `python -m benchmarks` runs them all."""

import os

# Before numpy is imported: one thread for everybody, so that a ratio compares arithmetic and not luck with cores.
os.environ["OPENBLAS_NUM_THREADS"] = "1"
