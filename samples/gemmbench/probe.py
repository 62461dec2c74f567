"""Run one kernel under Oclgrind, which is the only driver here. Started by check.py.

Prints a line of JSON for each size: the local size, whether the result is right, and how long the
log is by then. The matrices have buffers of their own size, so that Oclgrind sees their ends.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import launch
import matrices
import metadata
import numpy as np
import pyopencl as cl

from common import device, gemm

_MOST = 4  # work-items in each dimension of a group


def main():
    job = json.loads(sys.argv[1])
    meta = metadata.load(job["metadata"])
    meta = replace(meta, opts=" ".join([meta.opts, *(f"-D{text}" for text in job["defines"])]))
    (chosen,) = device.devices(device.platforms()[0])
    queue = device.open_queue(chosen)
    kernel = launch.build_kernel(queue.context, meta)
    for numbers in job["sizes"]:
        size = gemm.Size(*numbers)
        total, _ = launch.ndrange(meta, size, None, kernel, chosen, device.limits(chosen))
        fits = tuple(max(s for s in range(1, _MOST + 1) if side % s == 0) for side in total)
        wish = tuple(job["lws"] or fits)
        total, local = launch.ndrange(meta, size, wish, kernel, chosen, device.limits(chosen))
        right = run(queue, kernel, meta, size, total, local, job["seed"])
        item = {"local": f"{local[0]}x{local[1]}", "result": "right" if right else "wrong",
                "log_end": Path(job["log"]).stat().st_size}  # fmt: skip
        print(json.dumps(item), flush=True)


def run(queue, kernel, meta, size, total, local, seed):
    """Launch once; tell whether the result is right."""
    drawn = matrices.draw(size, meta.dtype, meta.scalar, seed, integer=False)
    stored = matrices.as_stored(drawn, meta, size)
    if meta.shape == "mnk":
        stored = {name: matrices.strided(matrix, name) for name, matrix in stored.items()}
    flags = cl.mem_flags.READ_WRITE | cl.mem_flags.COPY_HOST_PTR
    buffers = [
        cl.Buffer(queue.context, flags, hostbuf=np.ascontiguousarray(matrix))
        for matrix in stored.values()
    ]
    strides = [matrix.shape[1] for matrix in stored.values()]
    launch.set_arguments(kernel, meta, size, (drawn.alpha, drawn.beta), buffers, strides)
    cl.enqueue_nd_range_kernel(queue, kernel, total, local).wait()
    result = np.empty_like(stored["C"])
    cl.enqueue_copy(queue, result, buffers[2])
    expected, bound = matrices.result_and_bound(drawn, meta, size, "drawn", None)
    return gemm.check(result[:, : size.N], expected, bound).reason is None


if __name__ == "__main__":
    main()
