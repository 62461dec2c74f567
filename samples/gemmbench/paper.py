"""Why the validation failed in the GEMMbench paper: two causes, each reproduced separately.

python samples/gemmbench/run.py paper
python samples/gemmbench/run.py paper --orders 64,96,128

The paper does not explain why some orders failed. Here a right kernel and kernels that are wrong on
purpose run at each order. Each result is compared with the right reference, and with one that is
wrong as the original's was: its C was never filled before it was multiplied by beta.
"""

from types import SimpleNamespace

import metadata
import numpy as np
import point
import pyopencl as cl

from common import cli, device, gemm, measuring
from common.errors import PASSED, Unsupported, UsageError
from common.outputs import digest

EPS = 0.1  # the tolerance of the original: any error up to it is a match
# Each right kernel, what makes it wrong, and what must divide n for the wrong one to be right. The
# original's unrolled kernels took k in chunks of two vectors: -DDK=2.
PAIRS = (
    ("SGEMM_NT_4x1_barrier", "-DNO_TAIL", 128),
    ("DGEMM_NT_2x1_barrier", "-DNO_TAIL", 64),
    ("SGEMM_NT_4x1_unroll2", "-DNO_TAIL -DDK=2", 8),
)
# The paper's orders, and 100, which is no multiple of 8.
ORDERS = "64,96,100,128,192,256,384,512,640,768,896,1024"
_LINE = ("{order:<5}  {kernel:<28}  {too_many:<8}  {beyond_the_end:<8}  "
         "{by_reference:<8.3}  {by_kernel:<8.3}  {both:<8.3}  {verdict}")
_HEAD = ("order  kernel without a tail         past row  past end  "
         "cause 1   cause 2   both      verdict")
_LEGEND = f"""
cause 1     largest error of a right kernel against the wrong reference: the reference alone
cause 2     largest error of this kernel against the right reference: the kernel alone
both        largest error of this kernel against the wrong reference: what the paper saw
past row    excess products in each sum, computed from what lies past the row
past end    elements of C that depend on memory past the end of A or B
verdict     of the paper, for "both": at most {EPS:g} is a match"""


def parser():
    """Return the parser of `paper`."""
    result = cli.parser("gemmbench", __doc__, timed=False)
    result.add_argument("--orders", type=gemm.parse_sizes, metavar="N,...",
                        default=ORDERS, help="multiples of 4 (default %(default)s)")
    result.set_defaults(seed=12345)
    return result


def main(args):
    """Run the experiment; return 0 where it shows what is documented."""
    chosen, limits, about = cli.choose(args)
    cli.show(args, about)
    for size in args.orders:
        if len(set(size)) > 1 or size.M % 4:
            text = "these kernels need square matrices of an order that is a multiple of 4"
            raise UsageError(f"--orders {size}: {text}")
    queue = device.open_queue(chosen)

    # Find the kernels, without those whose type the device lacks.
    pairs = {}
    for name, mistake, unit in PAIRS:
        right = metadata.load(metadata.KERNELS / f"{name}.json")
        wrong = right._replace(name=f"{name}_no_tail", opts=f"{right.opts} {mistake}")
        try:
            wrong.require(max(args.orders), limits)
            pairs[wrong.name] = wrong, right, unit
        except Unsupported as lack:
            print(f"skipped: {lack}")
    if args.build_only:
        for name in args.progress.each(pairs):
            args.progress.at(name, "building")
            kernel = metadata.build(queue.context, pairs[name][0])
            cli.built(args, about, {"seed": args.seed}, {name: kernel})
        return PASSED

    # Compare each pair of kernels, which are the same programs at each order.
    kernels = {meta.name: metadata.build(queue.context, meta)
               for *both, _ in pairs.values() for meta in both}
    print(f"\n{_HEAD}", flush=True)
    rows, inputs = [], []
    for size in args.orders:
        for wrong, right, unit in pairs.values():
            drawn = point.draw(size, wrong, args.seed, "drawn")
            row, result = compare(queue, kernels, size, wrong, right, unit, drawn)
            rows.append(row)
            inputs += [drawn.A, drawn.B, drawn.C]
            cli.save_output(args, row.kernel, result)
            print(_LINE.format(**vars(row)), flush=True)
    print(_LEGEND)

    # Say which causes the table shows, and record it.
    print_causes(rows)
    unexplained = [f"{row.kernel} {row.order}" for row in rows if not explained(row)]
    reason = f"{len(unexplained)} rows are not explained" if unexplained else None
    print(f"NOT EXPLAINED by that: {', '.join(unexplained)}" if reason
          else "The two causes explain every row.")
    params = {"seed": args.seed, "eps": EPS, "orders": [size.M for size in args.orders],
              "rows": [vars(row) for row in rows]}
    return cli.save_result(args, about, "paper", reason, params, measuring.Measured(),
                           {"inputs_sha256": digest(*inputs)})


def compare(queue, kernels, size, wrong, right, unit, drawn):
    """Run both kernels on the same inputs; return a row of the table, and the C of the wrong one.

    The errors of a row are the largest of any element.
    """
    wanted = point.reference(drawn, wrong, "drawn")
    # The original's C is uninitialised memory, which a fresh process gets as zeros.
    addend = drawn.beta.item() * drawn.C
    by_original = wanted.result - addend
    amid_zeros, amid_nan = run(queue, kernels[wrong.name], wrong, size, drawn)
    of_right, _ = run(queue, kernels[right.name], right, size, drawn)

    def largest(errors):
        return float(np.abs(errors).max())

    both = largest(amid_zeros - by_original)
    return SimpleNamespace(
        order=size.M, kernel=wrong.name, unit=unit, too_many=-size.K % unit,
        by_reference=largest(of_right - by_original), by_kernel=largest(amid_zeros - wanted.result),
        both=both, verdict="match" if both <= EPS else "FAILS",
        kernel_fails=wanted.check(amid_zeros).reason is not None,
        beyond_the_end=int(np.isnan(amid_nan).sum()), beta_times_c=largest(addend),
    ), amid_zeros


def explained(row):
    """Tell whether the two causes, and nothing else, explain a row."""
    by_reference = abs(row.by_reference - row.beta_times_c) <= 1e-4
    by_kernel = {row.kernel_fails, row.beyond_the_end > 0, row.verdict == "FAILS"}
    return by_reference and row.by_reference <= EPS and by_kernel == {row.too_many > 0}


def run(queue, kernel, meta, size, drawn):
    """Return C of a run with zeros around the matrices, as in fresh memory, and of one with NaN."""
    operands = point.Operands(queue, meta, drawn)
    A, B, C = operands.matrices
    kernel.set_args(A.device, B.device, C.device, drawn.alpha, drawn.beta, np.uint32(size.N))

    def result(around):
        operands.fill(dict.fromkeys("ABC", around))
        total = metadata.global_size(meta, size)
        cl.enqueue_nd_range_kernel(queue, kernel, total, None).wait()
        return C.read()

    return result(0.0), result(None)


def print_causes(rows):
    """Print what the table shows, in words: which orders fail, and why."""
    low, high = min(r.by_reference for r in rows), max(r.by_reference for r in rows)
    most = max(row.beta_times_c for row in rows)
    print(f"""
Cause 1, the reference: it leaves out beta * C, at most {most:.4f}. So even a right
kernel is off by {low:.4f} to {high:.4f} at every order: a tolerance of {EPS:g} lets
that pass, and with a much smaller one nothing would pass.
Cause 2, the kernels: they take whole steps of k, and read beyond the rows.""")
    for kernel, unit in {row.kernel: row.unit for row in rows}.items():
        bad = [str(row.order) for row in rows if row.kernel == kernel and row.kernel_fails]
        which = f"fails at {', '.join(bad)}: no multiples" if bad else "is right: all are multiples"
        print(f"  {kernel} {which} of {unit}")
