"""Invalid inputs for every program of the suite: `make fuzz`, by tests/dev/test_fuzz.py."""
