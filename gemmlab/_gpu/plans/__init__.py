"""Plans: what a product of device arrays launched, kept for the next one like it.

Most of the host time of a small product goes into checks and arguments that are the same at the next call. So the
second product of a kind leaves a plan: its kernels with all arguments but the memory. A later one only looks the plan
up, takes memory for the result, and launches. Whatever is unusual goes the long way, `_api.foreign`, which also raises
every error.

    launches.py       what a product launches, without its memory
    of_rungs.py       that of a rung's product
    table.py          the plans by everything that decides a product but its memory
    making.py         a plan from a product that went the long way
    on_opencl.py      plans on pyopencl's arrays
    on_cuda.py        plans on CuPy's arrays
"""
