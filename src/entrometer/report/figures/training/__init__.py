"""Figures of training runs against their steps; several runs share the axes."""
