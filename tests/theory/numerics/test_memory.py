"""Freed memory is returned to the system."""

import ctypes
import resource
import subprocess
import sys

import pytest

SCRIPT = """
import numpy as np
from corrnoise.theory.numerics.memory import return_free_memory

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * {page}

del_threshold = np.ones(30 << 17)
del del_threshold  # from here on arrays below 30 MiB are parts of the heap
arrays = [np.ones(8 << 17) for _ in range(32)]
last = np.ones(8 << 17)
arrays.clear()
before = resident()
return_free_memory()
print(before - resident())
"""


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "malloc_trim"), reason="the C library is not glibc"
)
def test_freed_arrays_of_medium_size_are_returned():
    """32 arrays of 8 MiB are freed below one that is kept.  Without the call glibc holds all of them."""
    script = SCRIPT.format(page=resource.getpagesize())
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(found.stdout) > 200 << 20
