"""Reach boards, copy the samples, run them, collect the records. Runs on the host only.

remote.py and facts.py are the exception: they are sent to the board and run there.
"""
