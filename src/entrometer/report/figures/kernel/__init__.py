"""Figures of the Fisher kernel."""
