"""What every sample imports. Ships to the board: needs Python >= 3.10, numpy, pyopencl."""
