"""Backends in isolated processes: where they are timed, and how the session asks them.

    backend.py        one backend as the session sees it: its process, its rate, predictions; and the probe of speed
    process.py        a child process: started, asked, suspended, ended
    child_server.py   the child's side: answers one line of JSON with one line of JSON
    worker.py         the child that times and checks the products of one backend, in host memory or on a device
    affinity.py       pins each thread of a product to a separate core
    cold.py           empties the caches between two timed calls
"""
