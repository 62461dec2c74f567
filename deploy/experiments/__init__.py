"""Experiments: many points of a sample on many boards, by Optuna and Dask.

A point is one process of a sample on one board, with its record. Optuna says what a search that
learns tries next, Dask says where a point runs, and the program on the board keeps each result
until its records are stored here. They are all that is kept: a sweep continues from them. Optuna is
imported by learn.py only, Dask by workers.py and sweep.py.
"""
