"""Plans: a product on a device is planned, then executed.

The first product of a kind makes a plan: its kernels, compiled, with all arguments but the memory. Later ones look it
up, take memory for the result, and start it. `_api.foreign` checks what is planned, and raises every error.

    launches.py       what a product launches, without its memory: a rung says this
    making.py         that, with copies of operands and batches in parts, ready to be started
    table.py          the plans by everything that decides a product but its memory
    on_opencl.py  on_sycl.py  on_cuda.py      a runtime's launcher, and products of its arrays by plans
"""
