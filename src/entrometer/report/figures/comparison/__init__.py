"""Figures of comparisons of interventions."""
