"""Kernels are compiled once per machine, and let other threads run."""

import subprocess
import sys
import threading

import numpy as np

from service.inference import kernels
from service.inference.features import LatticeFeatures

COUNT_COMPILATIONS = """
from service.inference import kernels
compiled = [kernel for kernel in vars(kernels).values() if getattr(kernel, "signatures", None)]
print(len(compiled), sum(sum(kernel.stats.cache_misses.values()) for kernel in compiled))
"""


def test_a_second_process_finds_every_kernel_compiled() -> None:
    """This process imported them, so they are on disk; each has its signature, so no argument compiles another."""
    finished = subprocess.run([sys.executable, "-c", COUNT_COMPILATIONS], capture_output=True, text=True, check=True)
    found, compiled_anew = map(int, finished.stdout.split())
    assert found >= 7
    assert compiled_anew == 0


def test_conditioning_lets_other_threads_run() -> None:
    """While a kernel conditions on many rows this thread goes on counting, which the GIL would prevent."""
    features = LatticeFeatures(0.1, 0.2, [0, 0], [2, 2])
    activations = features.activate(np.random.default_rng(0).uniform(0, 2, (4000, 2)))
    batch = (np.array([0, 4000]), activations.indices, activations.values, activations.row_starts, np.ones(4000))
    sensor = (np.array([kernels.PROBIT]), np.zeros((1, 2)))
    belief = (np.ones((1, features.feature_count)), np.zeros((1, features.feature_count)))
    began = threading.Event()

    def work() -> None:
        began.set()
        for _ in range(50):
            kernels.condition_diagonal(*batch, *sensor, 1.0, False, *belief)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)  # no thread gives way by itself: only what a kernel lets go can be used here
    try:
        thread = threading.Thread(target=work)
        thread.start()
        began.wait()
        ticks = 0
        while thread.is_alive() and ticks < 10_000:
            ticks += 1
        assert ticks == 10_000
    finally:
        sys.setswitchinterval(interval)
        thread.join()
