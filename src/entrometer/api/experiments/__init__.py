"""The experiments that there are, one a file."""
