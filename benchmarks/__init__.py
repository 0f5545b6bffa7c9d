"""Measurements of the program from outside, as a table: `make bench`, or `python -m benchmarks --help`.

What is measured is ours alone: Discord, the models and the program are three processes on loopback (discord_side.py,
model_side.py, program.py), steered by this fourth one over their standard input and output (lines.py, processes.py).
Numbers of one machine say little by themselves, so the same traffic also runs through the bare libraries (bare.py), and
the table shows both. Times of different processes are compared: `time.perf_counter()` is one clock for the whole
machine on Linux and macOS.
"""
