"""Experiments, one package each: settings, passes, result tables and summary."""
