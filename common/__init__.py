"""Modules for every sample. Copied to the board: needs Python >= 3.8, numpy, pyopencl."""
