"""Limits on the data from a board, and on the time. Host and board use the same limits.

A board may be broken, or controlled by others. The board's programs keep to these limits, and fab
holds every board to them: what is larger, longer or later costs that board. fab itself stays below
300 MiB. Sizes are in bytes, times in seconds.
"""

import re

KIB, MIB = 1024, 1024 * 1024

# A conversation: lines of JSON, and files between them.
LONGEST_LINE = 512 * KIB  # JSON takes up to 50 times its size in memory
MOST_NOISE = 10_000  # lines that are no events: a login script's, a driver's
LONGEST_ERRORS = 64 * KIB  # what is kept of a program's stderr
LARGEST_CONVERSATION = 2048 * MIB  # all that comes in one: four of the largest runs

# A case. Anything beyond them is dropped, or stays on the board.
LOG = 4 * MIB  # what it prints: more ends the case
FIRST_RECORDS = 256 * KIB  # records that are sent as it ends, to be shown; all come with the run
LONGEST_PRINTED = 32 * KIB  # a longer line is passed on in parts: one takes six times that in JSON
ARRAYS = 16 * MIB  # what its kernels put out, for `fab parity`
RECORDS = 2 * MIB  # all of its records: up to 100 MiB in memory
LONGEST_RECORD = 256 * KIB  # one of them: it is copied twice as it is written anew

# The name of a sample or a case: 100 characters, since file names have 255.
NAME = r"[a-z0-9][a-z0-9_-]{0,99}"

# A run as it comes home: which files, and how large each may be, by the end of its name. First
# comes what matters most: what LARGEST_RUN has no room for is left.
FILE = re.compile("(plan|ended)[.]json|%s/%s[.](outcome[.]json|jsonl|log|npz)" % (NAME, NAME))
KINDS = (
    ("plan.json", MIB),
    ("ended.json", MIB),
    (".outcome.json", 64 * KIB),
    (".jsonl", RECORDS),
    (".log", LOG),
    (".npz", ARRAYS),
)
LARGEST_RUN = 512 * MIB  # all its files
# What a tool asks for: a driver's files of a kernel, the log of Oclgrind. Of any kind, in folders.
MADE = re.compile(r"(\w[\w.,+=-]{0,199}/){0,7}\w[\w.,+=-]{0,199}", re.ASCII)
MADE_KINDS = (("", 64 * MIB),)
MOST_CASES = 1000  # of one run: the samples have some 30
MOST_RECORDS = 10_000  # of one run that are summed up; all are in its files
MOST_BAD = 100  # lines of a file that are no records: then the rest of it is not read
LONGEST_TEXT = 1000  # characters of a reason, or of another text of a record, in a summary
MOST_RUNS = 1000  # that one `fab collect` takes

# Times. A board that goes on after its time is given up.
SILENCE = 60  # without a byte, either way: programs on the board beat every 5 s
STORING = 600  # for the host to write a run to its disk, until the board keeps it instead
PROBES = 900  # `fab doctor`, and the look of `fab provision`: probes there take up to 500
COPY = 1800  # `fab deploy`: slow cards take minutes to write
CLEAN = 600
FETCH = 3600  # `fab collect`
CASE_MARGIN = 60  # for each case of a run beside its own time limit
APT = 1800  # each of the two commands of apt
UNPACK = 3600  # packages, up to 200 MiB packed, on a slow card

# What a board says of itself.
INSTALLED = 4 * MIB  # the list of its Debian packages, some 100 bytes for each
NEWEST_GLIBC = 99  # 2.99: wheels for a newer one are not looked for
