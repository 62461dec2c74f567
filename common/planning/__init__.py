"""From the description of a GEMM kernel to its launches: parameters, NDRange, copies beside it."""
