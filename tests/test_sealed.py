"""Kernels sealed into an image: used where nothing can be written, compiled anew where they do not fit.

Each process here is refused every write beside the source, root or not; a small kernel stands for the real ones.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KERNEL = """
from numba import njit

@njit("float64(float64)", cache=True)
def double(x):
    return 2.0 * x
"""

COMPILE_AND_SEAL = """
import numba
numba.config.CACHE_LOCATOR_CLASSES = "InTreeCacheLocator"
import small_kernel
from service.sealed import seal
seal(small_kernel.__file__)
"""

USE_WITHOUT_WRITING = """
import errno, json, os, sys

def refuse(event, arguments):
    if event == "open" and str(arguments[0]).startswith(os.environ["READ_ONLY"]):
        if arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "read-only", arguments[0])

sys.addaudithook(refuse)
from small_kernel import double
assert double(21.0) == 42.0
print(json.dumps({"hits": sum(double.stats.cache_hits.values()), "compiled": sum(double.stats.cache_misses.values())}))
"""


LOCATORS = "service.sealed.SealedCacheLocator,UserProvidedCacheLocator"


class Image:
    """A folder with a source file, and another for whatever is compiled at the start."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "image"
        self.source = self.folder / "small_kernel.py"
        self.scratch = root / "scratch"

    def use(self, **environment: str) -> Any:
        return json.loads(self.python(USE_WITHOUT_WRITING, NUMBA_CACHE_LOCATOR_CLASSES=LOCATORS, **environment))

    def python(self, program: str, **environment: str) -> str:
        ours = {
            "PYTHONPATH": os.pathsep.join([str(self.folder), str(Path(__file__).parents[1])]),
            "PYTHONDONTWRITEBYTECODE": "1",
            "READ_ONLY": str(self.folder),
            "NUMBA_CACHE_DIR": str(self.scratch),
        }
        others = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        done = subprocess.run(
            [sys.executable, "-c", program], env=others | ours | environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Image:
    image = Image(tmp_path_factory.mktemp("sealed"))
    image.folder.mkdir()
    image.source.write_text(KERNEL)
    image.python(COMPILE_AND_SEAL)
    return image


@pytest.fixture
def image(original: Image, tmp_path: Path) -> Image:
    image = Image(tmp_path)
    shutil.copytree(original.folder, image.folder)
    return image


def test_sealed_kernels_are_used_where_nothing_can_be_written(image: Image) -> None:
    assert image.use() == {"hits": 1, "compiled": 0}
    assert not image.scratch.exists()


def test_kernels_sealed_for_another_processor_are_compiled_anew_elsewhere(image: Image) -> None:
    assert image.use(NUMBA_CPU_NAME="generic") == {"hits": 0, "compiled": 1}
    assert list(image.scratch.rglob("*.nbc"))


def test_kernels_sealed_from_another_source_are_compiled_anew_elsewhere(image: Image) -> None:
    image.source.write_text(KERNEL + "# changed\n")
    assert image.use() == {"hits": 0, "compiled": 1}
    assert list(image.scratch.rglob("*.nbc"))


def test_kernels_that_nobody_sealed_are_compiled_elsewhere(image: Image) -> None:
    shutil.rmtree(image.folder / "__pycache__")
    assert image.use() == {"hits": 0, "compiled": 1}
    assert list(image.scratch.rglob("*.nbc"))
