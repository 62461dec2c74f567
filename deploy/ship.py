"""Copy the samples to a board, and delete them there."""

import io
import tarfile

from deploy import samples


def deploy(board):
    """Make the board's copy equal to this checkout; only what differs travels."""
    files = samples.shipped(samples.load())
    session = board.start("remote", do="sync", manifest=samples.hashes(files))
    event = session.event()
    if event["event"] == "want":
        size = _send(session, [(path, files[path]) for path in event["paths"]])
        board.say(f"copying {len(event['paths'])} files, {size / 1024:.1f} KiB compressed")
        event = session.event()
    kept = event["files"] - event["sent"]
    board.say(f"deployed: {event['sent']} files copied, {kept} were there already")


def _send(session, files):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path, file in files:
            archive.add(file, arcname=path, recursive=False)
    payload = data.getvalue()
    session.send(b"%d\n" % len(payload))
    session.send(payload)
    return len(payload)


def clean(board, discard):
    """Delete what was deployed. Results that were never collected stay, unless `discard`."""
    event = board.start("remote", do="clean", discard=discard).event()
    board.say(f"cleaned {event['folder']}")
