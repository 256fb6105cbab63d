"""The process that gemmlab runs in: `forks.py` has what works after a fork and at the end of the program."""
