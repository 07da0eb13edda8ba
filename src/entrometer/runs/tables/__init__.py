"""Rows and tables that each experiment writes, one module per experiment."""
