"""A sample without OpenCL that does what a test of the tools asks for; ROOT is the checkout.

--do says what happens, --TS and --WPT are parameters of its kernel `k`, whose rate they make.
"""

import os
import signal
import sys
import time

sys.path.insert(0, os.environ["STUB_ROOT"])
from common.record import Record, append

DEVICE = {
    "name": "a device", "type": "cpu", "platform": os.environ.get("STUB_PLATFORM", "a platform"),
    "platform_version": "1", "vendor": "none", "driver": os.environ.get("STUB_DRIVER", "1"),
    "preferred_vector_widths": {"float": 4},
    "limits": {"local_mem_size": 1024, "max_work_group_size": 64,
               "max_work_item_sizes": [64, 64, 64]},
}
SPACE = {"defaults": {"TS": 4, "WPT": 1}, "values": {"TS": [2, 4, 8, 16], "WPT": [1, 2]},
         "constraints": ["TS % WPT == 0"], "local": ["TS", "TS"], "local_bytes": "0"}
CODE = os.environ.get("STUB_CODE", "code 1")


def main(argv):
    """Do what the arguments say; return the exit status."""
    # This one has no sensor, and nothing to build.
    argv = [word for word in argv if word not in ("--energy", "--build-only")]
    given = dict(zip(argv[::2], argv[1::2])) if "--describe" not in argv else {}
    path = argv[argv.index("--json") + 1]
    if "--describe" in argv:
        if "refuse-all" in argv:
            return 2
        kernels = [{"name": "01_k", "options": ["--kernel", "1"], "space": SPACE},
                   {"name": "plain", "options": ["--kernel", "2"], "space": None}]
        append(path, Record("stub", "describe", "passed", None, {"kernels": kernels}, DEVICE,
                            argv=["run.py", *argv], code=CODE))
        return 0
    with open(os.environ["STUB_RUNS"], "a") as file:
        file.write(" ".join(argv[: argv.index("--json")]) + "\n")
    time.sleep(float(given.get("--wait", 0)))
    do = given.get("--do", "pass")
    if do == "hang":
        time.sleep(1000)
    if do == "crash":
        print("last words \x1b[1m", file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGSEGV)
    if do == "silent":
        return 3
    status, exit_status = {"wrong": ("failed", 1), "refuse": ("error", 2),
                           "lack": ("unsupported", 77)}.get(do, ("passed", 0))
    rate = 10.0 * int(given.get("--TS", 4)) / int(given.get("--WPT", 1))
    rate *= float(os.environ.get("STUB_FACTOR", 1))
    for kernel in ("a", "b") if do == "two" else ("k",):
        passed = status == "passed"
        append(path, Record(
            "stub", kernel, status, None if passed else f"it is {do}",
            {"size": "8x8x8", "precision": "single"}, DEVICE,
            timing={"host_s": [0.1, 0.11, 0.12, 0.1, 0.1][: int(given.get("--repeat", 5))]},
            metrics={"gflops": rate, **({"gbytes_per_s": 1000 / rate} if do == "trade" else {})}
            if passed and do != "check" else {},
            argv=["run.py", *argv], code=CODE,
        ))
    if do == "lie":
        print("run.py: error: cannot write the output", file=sys.stderr)
        return 2
    return exit_status


sys.exit(main(sys.argv[1:]))
