"""Studies of one rung of a ladder.

    tuned_steps.py    the rung tuned, with one of its ideas less at a time
"""
