"""How many threads a product gets, and the threads: OpenMP's for the rungs, a team of its own for cpu-packed.

    _threads.pyx         by size, settings, CPUs, and what the system starts
      openmp_or_serial.h OpenMP's few calls, and what they mean in a serial build
      thread_start.h     how many threads of OpenMP's the system starts
    team.hpp             the team: a caller, and the workers that join it
      thread_places.h    where workers run
      pieces.hpp         the pieces of a product, and who takes them
      listening.hpp      whether a long product ends early, for a signal
      handover.hpp       whether a product gives the interpreter's lock to other threads
    threadpool.py        threadpoolctl's view of our threads
    other_openmp.py      OpenMP libraries that other packages bring
"""
