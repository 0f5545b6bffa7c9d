"""A week of a server within minutes: `make simulate`, or `python -m tests.benchmarks.simulate --help`.

The coordinator is the real one, with its scheduler, engine and policies. Redis and the agents are doubles in memory,
the people are drawn by habit, and time is virtual: the loop's clock jumps to whatever comes next (virtual_time.py).
Every draw comes from one seed, so a run can be repeated and two policies meet the same people.
"""
