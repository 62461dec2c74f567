"""Records in, one HTML page out. Runs on the host only: `python -m report`, or `fab report`."""

import logging

# What it thinks of fonts and folders is none of the user's business. Before it is imported.
logging.getLogger("matplotlib").setLevel(logging.ERROR)
