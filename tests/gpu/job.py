"""A job that takes so many MiB of the GPU that it was given, and keeps them for a while.

`python job.py FIRST_MIB THEN_MIB SECONDS`: the second amount after some seconds. It speaks with
CUDA's driver, so nothing has to be installed; beside the stand-in it only says what it would hold.
"""

import ctypes
import os
import sys
import time

CHANGE_S = 6


def main(first: int, then: int, seconds: int) -> int:
    """Takes memory, more of it later, and waits; 0, or 2 where it couldn't be had."""
    take = pretended if os.environ.get("STAND_IN_PROCESSES") else taken
    if not take(first):
        return 2
    print(f"holds {first} MiB of {os.environ.get('CUDA_VISIBLE_DEVICES')}", flush=True)
    time.sleep(CHANGE_S)
    if then > first:
        if not take(then - first):
            return 2
        print(f"holds {then} MiB", flush=True)
    time.sleep(seconds)
    return 0


def pretended(mib: int) -> bool:
    """Tells the stand-in; it adds up the lines of a process."""
    index = os.environ["STELLWERK_GPU_INDICES"].split(",")[0]
    with open(os.environ["STAND_IN_PROCESSES"], "a", encoding="ascii") as file:
        file.write(f"{index} {os.getpid()} {mib}\n")
    return True


def taken(mib: int) -> bool:
    """Allocates in the first device's context, made at the first call."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    for status in (
        cuda.cuInit(0),
        cuda.cuDeviceGet(ctypes.byref(device), 0),
        cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
        cuda.cuCtxSetCurrent(context),
        cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(mib << 20)),
    ):
        if status:
            print(f"{mib} MiB can't be had: CUDA error {status}", file=sys.stderr)
            return False
    return True


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:4])))
