"""Every figure of this project, each printed by `python -m benchmarks NAME --json`."""
