"""Measurements of the program from outside, as a table: `make bench`, or `python -m tests.benchmarks --help`.

Discord, the models and the program are three processes on loopback (sides/). A fourth one, this, controls them over
their standard input and output (processes.py). The same traffic also runs through the bare libraries as a reference,
since absolute numbers depend on the machine. Times of different processes are comparable: `time.perf_counter()` is one
clock for the whole machine on Linux and macOS.
"""
