"""A board that greets as it should, and then sends the file that it is given."""

import json
import sys


def main():
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    for _ in range(2):  # the loader, and the modules
        source.read(int(source.readline()))
    token = json.loads(source.readline())["token"]
    sink.write(json.dumps({"event": "hello", "token": token}).encode() + b"\n")
    with open(sys.argv[1], "rb") as said:
        sink.write(said.read() + b"\n")
    sink.flush()


if __name__ == "__main__":
    main()
