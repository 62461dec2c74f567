"""Experiments: many points of a sample on many boards, by Optuna and Dask.

A point is one process of a sample on one board, with its record. Optuna says what to try next and
keeps the study, Dask says where it runs, and the program on the board keeps each result until it is
stored here. Both libraries are imported by `fab sweep` and `fab worker` only.
"""
