"""Kernels that were compiled into an image, for containers whose root cannot be written to.

numba uses the cache beside a source file only where it may write to it. An image names `SealedCacheLocator` in
NUMBA_CACHE_LOCATOR_CLASSES: it reads what `python -m service.sealed` compiled and sealed for this very processor,
source and version, and leaves anything else to the next locator, which compiles anew. No other installation uses it.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import InTreeCacheLocator
from numba.core.registry import cpu_target


class SealedCacheLocator(InTreeCacheLocator):
    """The cache beside a source file, never written to; its seal says that all that will be asked for is there."""

    def ensure_cache_path(self) -> None:
        """An OSError is numba's way of trying the next locator."""
        source = Path(self._py_file)
        if _seal(source).read_text() != _contents(self):
            raise OSError(f"the kernels of {source} were sealed for another processor, source or version")


def seal(source: str) -> Path:
    """State for what the kernels of a source file are compiled; all of them have to be, beside it."""
    path = _seal(Path(source))
    path.write_text(_contents(InTreeCacheLocator(seal, source)))  # type: ignore[no-untyped-call]
    return path


def _seal(source: Path) -> Path:
    return source.parent / "__pycache__" / f"{source.stem}.sealed"


def _contents(locator: Any) -> str:
    """What numba looks a kernel up by, but for its own name and signature."""
    triple, processor, features = cpu_target.target_context.codegen().magic_tuple()
    return json.dumps(
        {
            "processor": [triple, processor, features],
            "source": repr(locator.get_source_stamp()),
            "versions": [numba.__version__, sys.implementation.cache_tag],
        }
    )


if __name__ == "__main__":
    # Beside the source, whatever the environment says; `kernels` is imported after it, and compiles what is not yet.
    numba.config.CACHE_LOCATOR_CLASSES = "InTreeCacheLocator"  # type: ignore[attr-defined]
    from service.inference import kernels

    print(f"sealed: {seal(kernels.__file__)}")
