"""Calls checksum_kernel.c, without NumPy; which files carry a checksum is known to `files` and its users."""

from __future__ import annotations

import ctypes
import functools

from shoal.kernels.build import build


@functools.cache
def library() -> ctypes.CDLL:
    kernel = ctypes.CDLL(str(build("checksum_kernel")))
    for function in (kernel.crc32c, kernel.crc32c_by_lanes, kernel.crc32c_by_table):
        function.argtypes = [ctypes.c_uint32, ctypes.c_void_p, ctypes.c_int64]
        function.restype = ctypes.c_uint32
    return kernel
