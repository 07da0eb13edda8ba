"""Tables."""

from studies.workbench_methods.rows import MethodTables


def tables(found: MethodTables) -> str:
    """All."""
    return ""
