"""Memory that an agent no longer needs."""

import ctypes
import sys
from pathlib import Path

_DONT_NEED = 4  # MADV_DONTNEED


def release_compiler_code() -> None:
    """Let go of LLVM's machine code: the kernels are loaded, and nothing is compiled in a running agent.

    These pages are only mapped from a file, so the kernel brings them back if they should be needed after all. Only
    executable mappings are touched: nothing in them can have been changed.
    """
    if sys.platform != "linux":
        return
    advise = ctypes.CDLL(None).madvise
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for mapping in Path("/proc/self/maps").read_text().splitlines():
        addresses, permissions, *rest = mapping.split(maxsplit=5)
        if permissions == "r-xp" and rest[-1].endswith("libllvmlite.so"):
            begin, end = (int(address, 16) for address in addresses.split("-"))
            advise(begin, end - begin, _DONT_NEED)
