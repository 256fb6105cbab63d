"""Backends in isolated processes: where they are timed, and how the session asks them.

    backend.py        one backend as the session sees it: its process, its rate, predictions; and the probe of speed
    worker.py         the child that times and checks the products of one backend, in host memory or on a device
    affinity.py       pins each thread of a product to a separate core
    cold.py           empties the caches between two timed calls
"""
