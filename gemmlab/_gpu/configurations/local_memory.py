"""How much local memory a kernel may declare.

What a device reports is not always the limit: NVIDIA's OpenCL driver reports 48 KB, and runs kernels that declare
arrays of 226 KB. So a GPU is asked by kernels that declare so much, fill it and read it again.
"""

from __future__ import annotations

import numpy as np

from gemmlab._errors import GemmlabError
from gemmlab._gpu.runtime import Queue

CANDIDATES_KB = (226, 162, 98, 64)  # of the devices that are known: 227, 163 and 99 KB at most, 64 KB on AMD's
ITEMS = 64
TEXT = """
#ifndef GROUP
#define GROUP __attribute__((reqd_work_group_size(GROUP_X, GROUP_Y, 1)))
#endif
__kernel GROUP void local_memory(__global int *C)
{
    __local int numbers[COUNT];
    const int item = get_local_id(0);
    for (int i = item; i < COUNT; i += GROUP_X)
        numbers[i] = i + C[0];
    barrier(CLK_LOCAL_MEM_FENCE);
    int sum = 0;
    for (int i = item; i < COUNT; i += GROUP_X)
        sum += numbers[COUNT - 1 - i] & 1;
    C[item] = sum;
}
"""


def probed(queue: Queue) -> int:
    """The largest local array in bytes that a kernel may declare: what a GPU was seen to run, or what it reports."""
    reported = queue.device.local_bytes
    if queue.device.kind != "gpu":  # a CPU's local memory is any memory: more of it has no use
        return reported
    for kilobytes in CANDIDATES_KB:
        if 1024 * kilobytes <= reported:
            break
        if _runs(queue, 1024 * kilobytes):
            return 1024 * kilobytes
    return reported


def _runs(queue: Queue, nbytes: int) -> bool:
    """Whether a kernel with so large an array compiles, runs, and finds in it what it wrote."""
    count = nbytes // 4
    try:
        own = queue.sibling()  # it may fail, and count as failed from then on
        kernel = own.kernel(TEXT, "local_memory", {"GROUP_X": ITEMS, "GROUP_Y": 1, "COUNT": count})
        numbers = np.zeros(ITEMS, np.int32)
        memory = own.allocate(numbers.nbytes)
        own.upload(memory, numbers)
        own.launch(kernel, (1, 1, 1), (ITEMS, 1, 1), [memory]).wait()
        own.download(numbers, memory)
    except (GemmlabError, NotImplementedError):
        return False
    return int(numbers.sum()) == count // 2
