"""Records in, one HTML page out. Runs on the host only: `python -m report`, or `fab report`."""
