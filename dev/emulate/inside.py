"""Become the emulated board: enter namespaces of its own, put its file system together, be sshd.

python -m dev.emulate.inside LEADER ROOT HOME CACHE QEMU ELF_CLASS ELF_MACHINE [COMMAND...]

The file LEADER gets the id of the process whose end is the end of the whole board. CACHE is a
folder with what its programs compiled before, or empty. A COMMAND runs in place of sshd, in this
folder, and its status is that of this program.
In these namespaces it is root, which an ordinary user may be there, too; nothing it does is seen
outside of them: user_namespaces(7), pid_namespaces(7), and binfmt_misc, which a user namespace has
for itself from Linux 6.7 on.
"""

import ctypes
import os
import shutil
import signal
import socket
import struct
import sys

CACHE = "/run/cache"  # compiled Python, and Mesa's shader cache
BOARD = 1000  # the board's user, who may no more there than any user may
_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_NEW_MOUNTS, _NEW_NAME, _NEW_USER, _NEW_PIDS = 0x20000, 0x4000000, 0x10000000, 0x20000000
_READ_ONLY, _REMOUNT, _BIND, _WITH_ALL_BELOW, _TO_US_ONLY = 1, 32, 4096, 16384, 1 << 19
_LOCKED = os.ST_NOSUID | os.ST_NODEV | os.ST_NOEXEC  # a user namespace must keep these
_BINFMT = "/proc/sys/fs/binfmt_misc"
_DEVICES = ("full", "null", "random", "tty", "urandom", "zero")


def main(leader, root, home, cache, qemu, elf_class, machine, *command):
    """Become the board; return a status, and only in the process that started it."""
    ids = os.getuid(), os.getgid()
    _unshare(_NEW_USER | _NEW_MOUNTS | _NEW_NAME | _NEW_PIDS)
    _map_user(*ids, to=0)
    go, written = os.pipe()
    if number := os.fork():  # the first process of its process namespace
        _touch(leader, f"{number}\n{birth(number)}")
        os.write(written, b"!")
        return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) if command else 0
    os.close(written)
    if not os.read(go, 1):
        return 1  # nobody would find a board whose leader is not written down
    _mount(None, "/", None, _WITH_ALL_BELOW | _TO_US_ONLY)
    _register(qemu, int(elf_class), int(machine))
    _put_together(root, home)
    if command:
        os.mkdir(f"{root}/run/work")
        _mount(os.getcwd(), f"{root}/run/work", None, _BIND | _WITH_ALL_BELOW)
    if cache:
        fill(cache, f"{root}{CACHE}")
    socket.sethostname("emulated")
    _unshare(_NEW_USER)
    _map_user(0, 0, to=BOARD)
    os.chroot(root)
    if command:
        os.chdir("/run/work")
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        os.execv(command[0], command)
    os.chdir("/home/board")
    os.execv("/usr/sbin/sshd", ["/usr/sbin/sshd", "-D", "-e", "-f", ".ssh/sshd_config"])


def birth(number):
    """Return what tells a process from a later one with the same id, or None if it is no more."""
    try:
        stat, boot = _content(f"/proc/{number}/stat"), _content("/proc/sys/kernel/random/boot_id")
    except OSError:
        return None
    state, *fields = stat.rpartition(")")[2].split()
    # Its start in ticks since the machine's: proc(5).
    return None if state in "ZX" else f"{boot.strip()} {fields[18]}"


def _map_user(uid, gid, to):
    """Be the user and the group `to` in the user namespace that was just entered."""
    for file, line in (
        ("setgroups", "deny"), ("uid_map", f"{to} {uid} 1"), ("gid_map", f"{to} {gid} 1"),
    ):
        with open(f"/proc/self/{file}", "w") as map_file:
            map_file.write(line)


def _register(qemu, elf_class, machine):
    """Let the kernel start ARM programs with qemu in these namespaces. Format: elf(5)."""
    try:
        _mount("binfmt_misc", _BINFMT, "binfmt_misc")
    except OSError:
        name = os.path.basename(qemu).removesuffix("-static")
        if os.path.exists(f"{_BINFMT}/{name}"):
            return  # the system's own will do
        raise
    magic = b"\x7fELF" + bytes((elf_class, 1, 1)) + bytes(9) + struct.pack("<HH", 2, machine)
    # Whatever the ABI; executable (2) or position-independent (3).
    mask = b"\xff" * 7 + b"\0" + b"\xff" * 8 + b"\xfe\xff\xff\xff"
    # F: qemu is opened now, for it cannot be seen from within the board. P: argv[0] as it was.
    line = f":board:M::{_escaped(magic)}:{_escaped(mask)}:{qemu}:PF"
    with open(f"{_BINFMT}/register", "w") as register:
        register.write(line)


def _escaped(data):
    return "".join(f"\\x{byte:02x}" for byte in data)


def _put_together(root, home):
    """Mount what belongs into the board's file system; of the root itself nothing can change."""
    vendors = f"{root}/etc/OpenCL/vendors"
    os.makedirs(vendors, exist_ok=True)  # a board without a driver has no such folder
    drivers = {name: _content(f"{vendors}/{name}") for name in os.listdir(vendors)}
    _mount(root, root, None, _BIND)
    _read_only(root)
    _mount(home, f"{root}/home/board", None, _BIND)
    try:
        _mount("proc", f"{root}/proc", "proc")
    except OSError:  # a container hides parts of its own, and allows no other
        _mount("/proc", f"{root}/proc", None, _BIND | _WITH_ALL_BELOW)
    for folder in ("dev", "run", "sys", "tmp"):
        _mount("tmpfs", f"{root}/{folder}", "tmpfs", 0, "mode=755")
    os.chmod(f"{root}/tmp", 0o1777)
    # The host's processors, which PoCL asks for; nothing of its GPU, which the board does not have.
    os.makedirs(f"{root}/sys/devices/system")
    system = f"{root}/sys/devices/system"
    _mount("/sys/devices/system", system, None, _BIND | _WITH_ALL_BELOW)
    _read_only(system)  # started by root, the board's user could else set the host's clocks
    for name in _DEVICES:
        _touch(f"{root}/dev/{name}")
        _mount(f"/dev/{name}", f"{root}/dev/{name}", None, _BIND)
    for folder in ("pts", "shm"):
        os.mkdir(f"{root}/dev/{folder}")
    _mount("devpts", f"{root}/dev/pts", "devpts", 0, "newinstance,ptmxmode=666,mode=620")
    _mount("tmpfs", f"{root}/dev/shm", "tmpfs", 0, "mode=1777")
    os.symlink("pts/ptmx", f"{root}/dev/ptmx")
    os.symlink("/proc/self/fd", f"{root}/dev/fd")
    # 32-bit programs built without large files, such as the ICD loader, cannot read an emulated
    # ext4 folder: its positions have 64 bits.
    _mount("tmpfs", vendors, "tmpfs", 0, "mode=755")
    for name, text in drivers.items():
        _touch(f"{vendors}/{name}", text)


def fill(cache, target):
    """Copy the caches; make Mesa's one that nothing is added to.

    Mesa says nothing about a kernel that it finds there. It writes to a folder for the first byte
    of a key.
    """
    shutil.copytree(cache, target)
    for byte in range(256):
        folder = f"{target}/mesa_shader_cache/{byte:02x}"
        os.makedirs(folder, exist_ok=True)
        os.chmod(folder, 0o555)


def _read_only(folder):
    """Make what was bound to a folder read-only there."""
    kept = os.statvfs(folder).f_flag & _LOCKED
    _mount(None, folder, None, _BIND | _REMOUNT | _READ_ONLY | kept)


def _content(path):
    with open(path, errors="replace") as file:
        return file.read()


def _touch(path, text=""):
    with open(path, "w") as file:
        file.write(text)


def _unshare(flags):
    if _LIBC.unshare(flags):
        raise _error("user namespaces")


def _mount(source, target, kind, flags=0, data=None):
    text = (None if value is None else os.fsencode(value) for value in (source, target, kind))
    if _LIBC.mount(*text, flags, None if data is None else data.encode()):
        raise _error(f"mount {target}")


def _error(what):
    number = ctypes.get_errno()
    return OSError(number, os.strerror(number), what)


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except OSError as error:
        sys.exit(f"{error.filename}: {error.strerror}")
