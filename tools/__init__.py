"""Start any sample as a program, here, and read its records: replay, inspect, check.

Nothing here imports a sample or OpenCL. What a tool must know of a sample stands in its
sample.toml, in the record of --describe, and in the records of its runs.
"""
