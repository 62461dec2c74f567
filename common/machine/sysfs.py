"""Clocks, temperatures and power as Linux shows them under /sys. Nothing here writes.

Boards differ in paths and units, so all functions take the folder that stands for /sys. What is not
there or cannot be read is left out: a machine may show nothing at all.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

SYSFS = Path("/sys")
_CPUFREQ = "devices/system/cpu/cpufreq/policy*"
_OLD_CPUFREQ = "devices/system/cpu/cpu[0-9]*/cpufreq"  # before Linux 4.3 there were no policies
_OLD_MALI = ("devices/*.mali", "class/misc/mali0/device")  # e.g. Exynos with Linux 3.10
_GPU = re.compile(r"gpu|mali|kgsl", re.IGNORECASE)
_XU3 = {"40": "A15", "41": "memory", "44": "GPU", "45": "A7"}  # by the address of its INA231
_HOTTEST = 200  # degrees Celsius: no sensor shows more, so more means thousandths


@dataclass(frozen=True)
class Clock:
    """One clock: `kind` is cpu, gpu or bus, `unit` the hertz of 1 in its files.

    The paths are those of the settings; None where this kind of clock has no such setting.
    """

    name: str
    kind: str
    unit: float
    current: Path
    least: Path | None = None
    most: Path | None = None
    governor: Path | None = None
    governors: Path | None = None  # those that there are
    steps: Path | None = None  # the frequencies that there are
    set_speed: Path | None = None  # what the governor `userspace` keeps to
    range: tuple = ()  # files of the lowest and highest frequency of the hardware

    def hz(self):
        """Return the present frequency in hertz, or None."""
        value = whole(self.current)
        return None if value is None else value * self._unit(value)

    def frequencies(self):
        """Return the frequencies that can be set, in hertz, lowest first; maybe only two."""
        values = [int(word) for word in (text(self.steps) or "").split() if word.isdigit()]
        values = values or [whole(path) for path in self.range]
        return sorted(value * self._unit(value) for value in values if value is not None)

    def in_files(self, hz):
        """Return the text that stands for `hz` in the files of this clock."""
        return str(round(hz / self.unit))

    def _unit(self, value):
        # Mali's old drivers show MHz, or Hz: a GPU runs at 100 MHz to 10 GHz.
        return self.unit if self.unit != 1e6 or value < 10**4 else 1


def text(path):
    """Return what the file says, or None where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except (OSError, AttributeError):
        return None


def whole(path):
    """Return the first whole number in the file, or None."""
    found = re.search(r"-?\d+", text(path) or "")
    return int(found[0]) if found else None


def clocks(sysfs=SYSFS):
    """Return the Clocks of CPU, GPU and buses, each once, whatever names lead to it."""
    sysfs, found = Path(sysfs), {}
    cpus = sorted(sysfs.glob(_CPUFREQ)) or sorted(sysfs.glob(_OLD_CPUFREQ))
    mali = (folder for pattern in _OLD_MALI for folder in sorted(sysfs.glob(pattern)))
    for clock in (*map(_cpu, cpus), *map(_devfreq, sorted(sysfs.glob("class/devfreq/*"))),
                  *map(_old_mali, mali)):
        if clock.hz() is not None:
            found.setdefault(clock.current.resolve(), clock)
    return list(found.values())


def _cpu(folder):
    return Clock(
        folder.name if folder.name.startswith("policy") else folder.parent.name, "cpu", 1e3,
        folder / "scaling_cur_freq", folder / "scaling_min_freq", folder / "scaling_max_freq",
        folder / "scaling_governor", folder / "scaling_available_governors",
        folder / "scaling_available_frequencies", folder / "scaling_setspeed",
        (folder / "cpuinfo_min_freq", folder / "cpuinfo_max_freq"),
    )


def _devfreq(folder):
    return Clock(
        folder.name, "gpu" if _GPU.search(folder.name) else "bus", 1,
        folder / "cur_freq", folder / "min_freq", folder / "max_freq",
        folder / "governor", folder / "available_governors",
        folder / "available_frequencies", folder / "userspace" / "set_freq",
    )


def _old_mali(folder):
    name = folder.name if folder.name != "device" else "mali0"
    return Clock(name, "gpu", 1e6, folder / "clock", folder / "dvfs_min_lock",
                 folder / "dvfs_max_lock")


def governors(sysfs=SYSFS):
    """Return the governor of each clock that has one, by the clock's name."""
    return {clock.name: governor for clock in clocks(sysfs)
            if (governor := text(clock.governor)) is not None}


def temperatures(sysfs=SYSFS):
    """Return the temperature of each sensor in degrees Celsius, by its name."""
    named = [*_named(sysfs, "class/thermal/thermal_zone*/temp", _folder_name),
             *_named(sysfs, "class/hwmon/hwmon*/temp*_input", _hwmon_name)]
    celsius = {name: value for name, path in named if (value := whole(path)) is not None}
    return {name: v / 1e3 if abs(v) > _HOTTEST else v for name, v in celsius.items()}


def _named(sysfs, pattern, name_of):
    """Return (name, path) of sensors' files, with names that all differ: boards have equal chips.

    Those of an equal name get the address of their device, and the file where that is not enough.
    """
    named = [(name_of(path), path) for path in sorted(Path(sysfs).glob(pattern))]
    for more in (_address, lambda path: f"{path.parent.name}/{path.name}"):
        names = [name for name, _ in named]
        named = [(f"{n} {more(p)}" if names.count(n) > 1 else n, p) for n, p in named]
    return named


def _folder_name(path):
    """Return the name of a file's folder, and what is said there of it: thermal_zone0 gpu."""
    what = text(path.with_name("type")) or text(path.with_name("name"))
    return f"{path.parent.name} {what}" if what else path.parent.name


def _hwmon_name(path):
    """Return `chip sensor` for a file such as hwmon3/power1_input."""
    sensor = path.name.rpartition("_")[0]
    label = text(path.with_name(f"{sensor}_label")) or sensor
    return f"{text(path.with_name('name')) or path.parent.name} {label}"


def _ina231_name(path):
    address = path.parent.name[-2:]
    return f"INA231 {_XU3.get(address, address)}"


def _address(path):
    """Return the name of the device of a sensor's file: 4-0040, or else its folder's, hwmon3."""
    device = path.with_name("device")
    return (device.resolve() if device.exists() else path.parent).name


@dataclass(frozen=True)
class Sensor:
    """What shows power, or energy if `counts`: `unit` watts or joules are 1 in its file.

    A counter starts anew after `wraps` (in its file's unit). A sensor with an `enable` file may be
    switched off.
    """

    name: str
    path: Path
    unit: float
    counts: bool = False
    wraps: int | None = None
    enable: Path | None = None

    def read(self):
        """Return watts or joules, or None where the sensor cannot be read."""
        found = re.search(r"-?\d+(\.\d+)?", text(self.path) or "")
        return float(found[0]) * self.unit if found else None

    def locked(self):
        """Tell whether only root may read it."""
        return self.counts and self.path.exists() and not os.access(self.path, os.R_OK)

    def off(self):
        """Tell whether the sensor must be switched on before it measures."""
        return self.enable is not None and whole(self.enable) == 0


def sensors(sysfs=SYSFS):
    """Return the power Sensors and energy counters that can be read: now, once on, or by root."""
    found = [
        Sensor(name, path, 1.0, enable=path.with_name("enable"))
        for name, path in _named(sysfs, "bus/i2c/drivers/INA231/*-00*/sensor_W", _ina231_name)
    ]
    for name, path in _named(sysfs, "class/hwmon/hwmon*/power*_input", _hwmon_name):
        found.append(Sensor(name, path, 1e-6))
    for name, path in _named(sysfs, "class/powercap/intel-rapl*/energy_uj", _folder_name):
        wraps = whole(path.with_name("max_energy_range_uj"))
        found.append(Sensor(name, path, 1e-6, counts=True, wraps=wraps))
    return [s for s in found if s.off() or s.locked() or s.read() is not None]
