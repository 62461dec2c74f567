"""What the machine is and what state it is in."""

import os
import platform
from pathlib import Path

_POLICIES = "devices/system/cpu/cpufreq"


def environment(sysfs=Path("/sys")):
    """Return what a record keeps of the machine: plain data."""
    machine = os.uname()
    return {
        "host": machine.nodename,
        "machine": machine.machine,
        "kernel": f"{machine.sysname} {machine.release}",
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "governors": governors(sysfs),
    }


def governors(sysfs=Path("/sys")):
    """Return the CPU frequency governor of each policy; empty where there is no cpufreq."""
    found = {}
    for policy in sorted(Path(sysfs, _POLICIES).glob("policy*")):
        try:
            found[policy.name] = (policy / "scaling_governor").read_text().strip()
        except OSError:
            continue  # a policy whose cores are offline cannot be read
    return found
