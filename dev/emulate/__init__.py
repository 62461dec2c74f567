"""An ARM board that is emulated on this machine: `make board` starts it, `make board-stop` ends it.

A Debian userland for ARM runs under qemu's user-mode emulation, in namespaces of its own, with a
real sshd on a port of 127.0.0.1. Nothing on the host changes, and no right beyond the user's own is
needed. What is slow or fast on it says nothing about a board: what is right or wrong does.
"""
