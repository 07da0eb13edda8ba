"""Figures of what each token of an update does."""
