"""64-bit integers: the sum of an image's pixels and of their squares, checked and timed.

python samples/64_bit_integer/run.py                    assets/input.bmp, the SDK's kernel
python samples/64_bit_integer/run.py photo.png          any image that Pillow opens
python samples/64_bit_integer/run.py --kernel all       every kernel, side by side
python samples/64_bit_integer/run.py --size 4096x4096   an image made from --seed; no Pillow
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
try:
    from common.errors import importing
except ImportError:
    print("run.py: error: no folder common beside samples: copy both", file=sys.stderr)
    sys.exit(3)

with importing():  # or tell in one line what this machine lacks
    import launch
    import luma
    import numpy as np
    import pyopencl as cl

    from common import arguments, cli, device, flush, measuring
    from common.buffers import GuardedBuffer
    from common.errors import UNSUPPORTED, worst
    from common.sizes import require_room

SDKS, WITHOUT_ATOMICS = "long_vectors", "two_stages"


def options():
    parser = cli.parser("64_bit_integer", __doc__)
    parser.usage += " [IMAGE]"
    add = parser.add_argument
    add("image", nargs="?", type=arguments.a_path, metavar="IMAGE",
        help="image file (default assets/input.bmp)")
    add("--size", type=luma.parse_size, metavar="WxH", help="make an image of this size instead")
    add("--data", choices=("noise", "white", "black"),
        help="contents of the image of --size (default noise)")
    add("--kernel", choices=[*launch.KERNELS, "all"],
        help=f"(default {SDKS}; {WITHOUT_ATOMICS} if 64-bit atomics do not work)")
    add("--work-group", type=int, choices=launch.WORK_GROUPS, metavar="N",
        help="work-items in a work-group: 1, 2, 4, ... 1024")
    add("--access", choices=("contiguous", "interleaved"),
        help="access pattern (default on a CPU: contiguous)")
    return parser


def main(args):
    # Open the device, and find out what works.
    chosen, limits, about = cli.choose(args)
    if args.describe:
        return cli.describe(args, about, launch.kernels(chosen))
    cli.show(args, about)
    queue = device.open_queue(chosen)
    lacking = launch.why_no_atomics(queue, limits)

    # Get the image and its exact sums.
    image, source = luma.get(args.image, args.size, args.data, args.seed)
    require_room(source, {"the image": image.nbytes}, limits, "choose a smaller image")
    expected = luma.exact(image)
    tested = "not tested" if args.build_only else "work, tested by a probe kernel"
    print(f"\n{source}\n64-bit atomics: {lacking or tested}")
    if not args.build_only:
        pixels = GuardedBuffer(queue, (image.size,), np.uint8)
        pixels.write(image.reshape(-1))

    # Choose the kernels.
    default = WITHOUT_ATOMICS if lacking else SDKS
    names = list(launch.KERNELS) if args.kernel == "all" else [args.kernel or default]
    if lacking and not args.kernel:
        print(f"{SDKS} needs them: {default} runs in its place")
    cli.pin(args, about, len(names))
    params = {**cli.parameters(args, "seed", "data"), "image": source, "atomics": lacking or "work"}
    statuses, passes, between = [], {}, flush.flusher(queue, args.caches)  # between timed runs
    for name in args.progress.each(names):
        atomics = launch.KERNELS[name].atomics
        if atomics and lacking:
            print(f"\n{name}: not supported: {lacking}")
            statuses.append(UNSUPPORTED)
            cli.save_stopped(args, about, name, "unsupported", lacking, params)
            continue

        # Build the kernel for its work-groups.
        args.progress.at(name, "building")
        shape = launch.choose(name, chosen, limits, image.size, args.work_group, args.access)
        kernel, shape = launch.built(queue, name, shape)
        asked = {**params, **shape._asdict(), "local": str(shape.local)}
        if args.build_only:
            cli.built(args, about, asked, {name: kernel})
            continue

        # Create the buffer of the sums: two numbers; without atomics, two for each work-group.
        args.progress.at(name, "running")
        pixels.guard()  # the kernel before may have written there
        result = GuardedBuffer(queue, (1 if atomics else shape.groups, 2), np.uint64)
        count, contiguous = np.uint32(image.size), np.uint32(bool(shape.contiguous))
        kernel.set_args(pixels.device, count, contiguous, result.device)

        def enqueue():
            return cl.enqueue_nd_range_kernel(queue, kernel, *shape.ndrange())

        def run():
            result.write(0)  # timed launches with atomics add to what is there
            enqueue().wait()
            return result.read().sum(axis=0)

        # Run once and check both sums.
        print(f"\n{name}, {shape}", flush=True)
        found = run()
        check = luma.check(found, expected, pixels.intact() and result.intact())

        # Warm up and time a right kernel, run once more, and record it.
        measured = measuring.Measured()
        if not (check.reason or args.check_only):
            measured = measuring.measure(args, about, enqueue, "gbytes_per_s", image.size / 1e9,
                                         between=between)
            print(*measured.lines(args.verbose), sep="\n")
            if not args.ended:
                check = check.again(found, run())
            passes[name] = launch.whole_pass(queue, kernel, shape, result, image.size,
                                             reset=atomics)
        print("\n".join(luma.lines(found, image.size)))
        print(f"FAILED: {check.reason}" if check.reason else "PASSED: both sums equal the host's")
        statuses.append(cli.save_result(args, about, name, check.reason, asked, measured,
                                        check.values([image], found), found))

    # Compare all kernels with numpy and with a kernel that only reads.
    if args.kernel == "all" and passes and args.caches == "warm":  # as a whole pass leaves them
        passes["plain read"] = launch.plain_read(queue, shape, pixels, image.size)
        passes["numpy on the host"] = lambda: luma.exact(image)
        print("", *launch.side_by_side(passes, expected, image.size, args.repeat, args.warmup),
              sep="\n")
    return worst(statuses)


if __name__ == "__main__":
    cli.run(main, options())
