"""The measurement `rooms`: many rooms of four personas at once, by the coordinator alone and by the whole program.

What a turn costs must not grow with the number of rooms, so each is measured with 1, 10 and 100 in one run.
"""
