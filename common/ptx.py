"""Use instructions that NVIDIA's OpenCL compiler refuses: the program's binary is patched.

The compiler targets sm_90 on a Hopper GPU, and no option changes that. Some instructions, such as
wgmma, are in sm_90a only. They stand behind MARK in the inline assembly of a source: a comment of
PTX. The binary of an OpenCL program is PTX as well. There the comments are opened, and the target
is named; as a binary the driver takes it.
"""

import re

import pyopencl as cl

MARK = "//@ "
_ENTRY = re.compile(r"^(?=\s*\.(?:visible|weak)?\s*\.?entry\b)", re.MULTILINE)


def opened(text):
    """Return PTX with the text behind each MARK as an instruction, for the target with an `a`.

    A kernel that redistributes registers (setmaxnreg) must start with a fixed number of them:
    .minnctapersm makes the compiler fix it.
    """
    text = re.sub(r"(\.target\s+sm_\d+)\b", r"\1a", text).replace(MARK, "")
    return "".join(map(_with_registers, _ENTRY.split(text)))


def _with_registers(kernel):
    if "setmaxnreg" not in kernel:
        return kernel
    return re.sub(r"(\.reqntid[ \d,]+)", r"\1\n.minnctapersm 1\n", kernel, count=1)


def patched(program, options):
    """Return a program of the patched binary of one that is built, built with the same options."""
    (device,) = program.get_info(cl.program_info.DEVICES)
    text = program.get_info(cl.program_info.BINARIES)[0].rstrip(b"\0").decode()
    found = cl._cl._Program(program.get_info(cl.program_info.CONTEXT), [device],
                            [opened(text).encode() + b"\0"])
    found.build(options, [device])
    return found
