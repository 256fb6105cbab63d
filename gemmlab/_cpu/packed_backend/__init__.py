"""cpu-packed as a backend, around the C++ of `_cpu/packed/`.

    backend.py           its parameters and defaults, and what the library asks of a backend
    plan.py              how a product is cut, as the compiled loops say it (words.pxd)
    traffic.py           modelled traffic, from that plan
    dtypes.py            where a kernel stands in the table of dtypes
    _packed.pyx          calls the loops on arrays of any strides and dtype (loops.pxd declares them)
      threads.pxd        the threads of a product
      arrays.pxd         where arrays are in memory, and how their leading axes broadcast
      observe.hpp        kernels that clock packing, or record what would be done
      interpreter_lock.hpp  runs a product with or without the interpreter's lock
      workspace.hpp      memory for panels, kept between calls
"""
