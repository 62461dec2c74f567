"""A folder that looks like /sys of a board, for what reads and sets clocks and power."""

import threading
from contextlib import contextmanager


def put(tree, path, value):
    """Write a file of the tree."""
    file = tree / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{value}\n")


def in_place_of_sys(tree):
    """Return Python that lets a sample's `run` read `tree` where it would read /sys."""
    return f"""
from functools import partial
from pathlib import Path
def options(make):
    parser = make()
    parser.set_defaults(sysfs=Path({str(tree)!r}))
    return parser
run.options = partial(options, run.options)
"""


CPU = "devices/system/cpu/cpufreq/policy0"
GPU = "class/devfreq/ff9a0000.gpu"
ZONE = "class/thermal/thermal_zone0"


def rockchip(tree):
    """A board with a CPU, a Mali under devfreq, a thermometer and a power sensor, as it boots."""
    for name, value in {
        "scaling_governor": "schedutil", "scaling_available_governors": "schedutil performance",
        "scaling_cur_freq": 1200000, "scaling_min_freq": 408000, "scaling_max_freq": 1200000,
        "scaling_available_frequencies": "408000 1200000 1800000 ",
        "cpuinfo_min_freq": 408000, "cpuinfo_max_freq": 1800000,
    }.items():
        put(tree, f"{CPU}/{name}", value)
    for name, value in {
        "governor": "simple_ondemand", "available_governors": "simple_ondemand performance",
        "cur_freq": 200000000, "min_freq": 200000000, "max_freq": 800000000,
        "available_frequencies": "200000000 400000000 800000000",
    }.items():
        put(tree, f"{GPU}/{name}", value)
    put(tree, f"{ZONE}/type", "gpu-thermal")
    put(tree, f"{ZONE}/temp", 47500)
    put(tree, "class/hwmon/hwmon1/name", "ina3221")
    put(tree, "class/hwmon/hwmon1/power1_label", "VDD_GPU")
    put(tree, "class/hwmon/hwmon1/power1_input", 1500000)
    return tree


def snapshot(tree):
    """Return what every file holds."""
    return {path: path.read_text() for path in sorted(tree.rglob("*")) if path.is_file()}


@contextmanager
def changing(file, values, every=0.01):
    """Write one value after the other into the file, over and over, while the block runs."""
    stop = threading.Event()

    def follow():
        number = 0
        while not stop.wait(every):
            value = values(number) if callable(values) else values[number % len(values)]
            scratch = file.with_name("scratch")
            scratch.write_text(f"{value}\n")
            scratch.replace(file)
            number += 1

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
