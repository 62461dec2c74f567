"""The program fab: `make` puts this into .venv/bin, in place of Fabric's own.

That one reads configurations, and runs what stands after --, without a look at the fabfile.
"""

import os
import sys


def checkout():
    """Return the checkout that this is started in, else the one that this file is of."""
    try:
        places = os.getcwd(), os.path.dirname(os.path.abspath(__file__))
    except OSError:  # the folder was deleted: Fabric cannot run in it
        places = ()
    for place in places:
        while place != os.path.dirname(place):
            if os.path.exists(os.path.join(place, "deploy", "start.py")):
                return place
            place = os.path.dirname(place)
    print("fab: error: run it in the checkout", file=sys.stderr)
    sys.exit(2)


if __name__ == "__main__":
    sys.argv[0] = "fab"
    sys.path[0] = checkout()
    from deploy import start

    start.main()
