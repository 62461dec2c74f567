"""Modules for every sample. Copied to the board: needs Python >= 3.10, numpy, pyopencl."""
