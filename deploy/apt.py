"""How this machine's apt is set up: its archive, and its way there.

Standard library only, as dev.emulate is.
"""

import platform
import subprocess


def own_archive(distribution):
    """Return the suites that this machine has of that distribution, if it is its own.

    (what the suite's name adds to the release's, such as -security; component; address) of each.
    """
    own = platform.freedesktop_os_release()
    codename = own.get("VERSION_CODENAME")
    if own["ID"] != distribution or not codename:
        return []
    lines = _output("apt-get", "indextargets", "--no-release-info", "--format",
                    "$(RELEASE) $(COMPONENT) $(REPO_URI)", "Created-By: Packages").splitlines()
    suites = {tuple(line.split()) for line in lines if line.startswith(codename)}
    return sorted((suite.removeprefix(codename), *more) for suite, *more in suites)


def own_settings():
    """Return this machine's own way to an archive, a proxy above all, as lines for an apt.conf."""
    lines = _output("apt-config", "dump", "Acquire").splitlines()
    kept = [line for line in lines if '""' not in line and "IndexTargets" not in line]
    return "\n".join(kept) + "\n"


def _output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout
