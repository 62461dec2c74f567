"""Kernels that do something bad, for what must survive them."""

import json

HANG = "    volatile int forever = 1; while (forever) { }\n"
CRASH = "    C = (global float *)8;\n"
PLAIN = (
    "kernel void gemm(global const float *A, global const float *B, global float *C,\n"
    "                 float alpha, float beta, uint n)\n{\n"
    "%s    C[get_global_id(1) * n + get_global_id(0)] = 0;\n}\n"
)


def add_kernel(folder, name, spoil):
    """Write a kernel that does something bad before it gives a wrong result."""
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.cl").write_text(PLAIN % spoil)
    keys = {"name": name, "file": f"{name}.cl", "type": "S", "transA": "N", "transB": "N",
            "dj": 1, "di": 1}
    (folder / f"{name}.json").write_text(json.dumps(keys))
