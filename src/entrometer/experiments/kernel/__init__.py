"""The Fisher kernel: what a step made from one sequence does to another."""
