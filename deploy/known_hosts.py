"""Read files like ~/.ssh/known_hosts for one host: trusted and revoked keys.

They are read as OpenSSH does: several names in a line, with * ? and !, [host]:port, hashed names,
and the markers @cert-authority and @revoked. A line that cannot be understood never trusts a key;
it is reported for the hosts that it names, and other hosts are not affected.
"""

import base64
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

import paramiko

from common.errors import UsageError
from common.files import read_bytes

MOST_BYTES = 64 * 1024**2  # of one file: some 100,000 long lines
AUTHORITY, REVOKED = "@cert-authority", "@revoked"


@dataclass
class Known:
    """What the files say of one host.

    `trusted` and `revoked` hold keys of paramiko, by where they stand: FILE:LINE. `trouble` says
    for lines about this host why they trust no key; `fatal`, why no key can be trusted at all.
    """

    trusted: dict = field(default_factory=dict)
    revoked: dict = field(default_factory=dict)
    trouble: list = field(default_factory=list)
    fatal: str | None = None

    def where(self, key):
        """Return where a key is revoked, and where it is trusted; None where it is not."""
        return tuple(
            next((where for where, known in keys.items() if known.asbytes() == key.asbytes()), None)
            for keys in (self.revoked, self.trusted)
        )


def look_up(paths, name):
    """Return the Known of a host in these files; `name` is HOST, [HOST]:PORT or a HostKeyAlias."""
    known = Known()
    for path in paths:
        try:
            text = read_bytes(path, MOST_BYTES).decode(errors="surrogateescape")
        except UsageError as error:
            known.fatal = str(error)  # it may revoke any key
            continue
        for number, line in enumerate(text.split("\n"), 1):
            _take(known, line, name, f"{path}:{number}")
    return known


def _take(known, line, name, where):
    fields = line.split(None, 4)
    if not fields or fields[0].startswith("#"):
        return
    marker = fields.pop(0) if fields[0].startswith("@") else None
    if not fields:
        known.trouble.append(f"{where} names no host")
        return
    if not _names(fields[0], name):
        return
    if marker == AUTHORITY:
        known.trouble.append(f"{where} trusts a certificate authority, which fab does not support")
        return
    try:
        key = _key(*fields[1:3])
    except paramiko.UnknownKeyType as error:  # no board can come with such a key
        known.trouble.append(f"{where} has a key of the unknown type {error.key_type}")
    except (ValueError, TypeError):
        known.trouble.append(f"{where} has no readable key")
        if marker == REVOKED:
            known.fatal = f"{where} revokes an unreadable key: fix or remove the line"
    else:
        if marker == REVOKED:
            known.revoked[where] = key
        elif marker is not None:
            known.trouble.append(f"{where} has the unknown marker {marker}")
        else:
            known.trusted[where] = key


def _key(key_type, text):
    """Return the key of a line.

    Raises ValueError where it cannot be read, UnknownKeyType where paramiko has no such keys.
    """
    data = base64.b64decode(text, validate=True)
    inside = key_type.encode(errors="replace")
    if not data.startswith(len(inside).to_bytes(4, "big") + inside):
        raise ValueError("it is of another type than it says")
    try:
        return paramiko.PKey.from_type_string(key_type, data)
    except paramiko.UnknownKeyType:
        raise
    except Exception as error:  # a broken key shows in many ways
        raise ValueError("it is broken") from error


def _names(patterns, name):
    """Tell whether a line's first field names the host."""
    if patterns.startswith("|"):
        return _is_hash_of(patterns, name)
    name, found = name.lower(), False
    for pattern in patterns.lower().split(","):
        if _fits(pattern.removeprefix("!"), name):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def _fits(pattern, name):
    """Tell whether a name fits a pattern: * is any characters, ? is one."""
    # Most patterns are of other hosts, and these are not compiled.
    parts = pattern.replace("?", "*").split("*")
    return all(part in name for part in parts) and fnmatchcase(name, pattern.replace("[", "[[]"))


def _is_hash_of(text, name):
    try:
        names = {name, name.lower()}
        return text in [paramiko.HostKeys.hash_host(each, text) for each in names]
    except (ValueError, LookupError, AssertionError):  # paramiko asserts that a salt is one
        return False
