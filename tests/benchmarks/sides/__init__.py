"""The processes that a measurement starts: Discord, the models, the program and the bare libraries, one module each.

lines.py is how they are controlled, monitor.py notices stalls of an event loop. Nothing here knows a measurement.
"""
