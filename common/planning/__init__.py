"""From the description of a GEMM kernel to its launches and its result: plans.py, result.py."""
