"""The process that gemmlab runs in, and its children.

    forks.py         what works after a fork and at the end of the program
    importing.py     imports that a fork waits for, and names that are imported on first use
    children.py      a child process: started, asked, suspended, ended
    child_server.py  the child's side: answers one line of JSON with one line of JSON
"""
