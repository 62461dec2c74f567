"""The program for boards: sent over the connection each time, never installed. See deploy/link.py.

It needs only the standard library of Python 3.6, so that a board whose Python is too old for the
samples can still say so.
"""
