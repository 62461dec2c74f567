"""Copy the samples to a board, and delete them there."""

import io
import tarfile

from deploy import helper, samples
from deploy.link import sense
from deploy.onboard import limits
from deploy.screen import shortened


def deploy(board):
    """Make the board's copy equal to this checkout; only what differs travels."""
    files = samples.shipped(samples.load())
    session = board.start("sync", limits.COPY, manifest=samples.hashes(files))
    event = session.event()
    if event["event"] == "want":
        with sense(event):
            wanted = {path: files[path] for path in event["paths"]}
        data = io.BytesIO()
        pack(wanted, data)
        session.send(b"%d\n" % data.tell() + data.getvalue())
        size = data.tell() / limits.KIB
        board.say(f"copying {len(wanted)} files, {size:.1f} KiB compressed")
        event = session.event()
    with sense(event):
        sent, kept = event["sent"], event["files"] - event["sent"]
        board.say(f"deployed: {sent:d} files copied, {kept:d} unchanged")


def pack(files, packed):
    """Write a tar.gz of files, a table by their path in it, to an open file."""
    # Level 3: half the time of the usual 9, a twentieth more to send.
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=3) as archive:
        for path, file in files.items():
            archive.add(file, path, recursive=False)


def clean(board, discard, system=False):
    """Delete what was deployed. Results that were never collected stay, unless `discard`.

    With `system` the helper that runs as root goes, too, and first: it may be all that is there.
    """
    if system:
        helper.remove(board)
    event = board.start("clean", limits.CLEAN, discard=discard).event()
    with sense(event):
        board.say(f"cleaned {shortened(event['folder'])}")
