"""Reach boards, copy the samples, run them, collect the records. Runs on the host only.

The exception is onboard/: it is sent to the board and runs there.
"""
