#!/bin/sh
# Become the emulated board: put its file system together, and be its sshd or a command.
#
#   unshare --user --map-root-user --mount --uts --pid --fork sh inside.sh \
#       ROOT HOME CACHE QEMU ELF_CLASS ELF_MACHINE [COMMAND...]
#
# CACHE is a folder with what the board's programs compiled before, or empty. A COMMAND runs in place
# of sshd, in this folder. In these namespaces this is root, which an ordinary user may be there,
# too; nothing that it does is seen outside of them: user_namespaces(7), pid_namespaces(7).
set -eu
root=$1 home=$2 cache=$3 qemu=$4 class=$5 machine=$6
shift 6

mount() { # one line where it cannot be done: mount(8) itself adds advice
    command mount "$@" 2> /dev/null && return
    for target; do :; done
    echo "cannot mount $target" >&2
    exit 1
}

read_only() { # a user namespace must keep options such as nosuid
    kept=$(findmnt --noheadings --output VFS-OPTIONS --mountpoint "$1")
    mount -o "remount,bind,$kept,ro" "$1"
}

# Let the kernel start ARM programs with qemu: the magic is that of elf(5), whatever the ABI, for an
# executable (2) or a position-independent one (3). P: argv[0] as it was. F: qemu is opened now, for
# it cannot be seen from within the board. From Linux 6.7 on a user namespace has a binfmt_misc for
# itself; else the system's own will do.
binfmt=/proc/sys/fs/binfmt_misc
if command mount -t binfmt_misc binfmt_misc $binfmt 2> /dev/null; then
    magic="\x7fELF\x$class\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x$machine\x00"
    mask='\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff'
    printf %s ":board:M::$magic:$mask:$qemu:PF" > $binfmt/register
elif [ ! -e "$binfmt/$(basename "$qemu" -static)" ]; then
    echo "cannot mount $binfmt" >&2
    exit 1
fi

vendors=$root/etc/OpenCL/vendors system=$root/sys/devices/system
mkdir -p "$vendors" # a board without a driver has no such folder
mount --bind "$root" "$root"
read_only "$root"
mount --bind "$home" "$root/home/board"
# A container hides parts of its own /proc, and allows no other.
command mount -t proc proc "$root/proc" 2> /dev/null || mount --rbind /proc "$root/proc"
for folder in dev run sys tmp; do
    mount -t tmpfs -o mode=755 tmpfs "$root/$folder"
done
chmod 1777 "$root/tmp"
# The host's processors, which PoCL asks for; nothing of its GPU, which the board does not have.
# Read-only: started by root, the board's user could else set the host's clocks.
mkdir -p "$system"
mount --rbind /sys/devices/system "$system"
read_only "$system"
for device in full null random tty urandom zero; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
# 32-bit programs built without large files, such as the ICD loader, cannot read an emulated ext4
# folder: its positions have 64 bits.
cp -r "$vendors" "$root/run/vendors"
mount --bind "$root/run/vendors" "$vendors"
if [ -n "$cache" ]; then
    cp -r "$cache" "$root/run/cache"
    # Mesa says nothing about a kernel that it finds in its cache. So nothing can be added: it
    # writes to a folder for the first byte of a key.
    mkdir -p "$root/run/cache/mesa_shader_cache"
    cd "$root/run/cache/mesa_shader_cache"
    mkdir -p $(printf '%02x ' $(seq 0 255))
    chmod 555 ??
    cd "$OLDPWD"
fi
hostname emulated

if [ $# -gt 0 ]; then
    there=/run/work
    mkdir "$root$there"
    mount --rbind "$PWD" "$root$there"
else
    there=/home/board
    set -- /usr/sbin/sshd -D -e -f .ssh/sshd_config
fi
# The board's user, 1000, may no more there than any user may.
exec unshare --user --map-user=1000 --map-group=1000 --root="$root" --wd="$there" "$@"
