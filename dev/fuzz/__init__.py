"""Invalid inputs for every program of the suite: `make fuzz`."""
