"""Tables of the studies as Markdown."""

from pathlib import Path

from entrometer.runs.tables.kernel import KernelTables
from studies.collected import committed_tables
from studies.kernel_tables import tables
from studies.markdown import table

KERNEL = Path(__file__).parents[2] / "studies" / "kernel"


def test_a_table_is_heads_a_rule_and_rows():
    found = table(("name", "value"), (row for row in (["a", "1"], ["b", "2"])))
    assert found == "| name | value |\n|---|---|\n| a | 1 |\n| b | 2 |"


def test_a_table_without_rows_has_heads():
    assert table(("name",), []) == "| name |\n|---|"


def test_every_row_of_a_study_has_a_cell_for_each_head():
    found = tables(committed_tables(KERNEL, KernelTables)).split("\n\n")
    assert len(found) == 6
    for one in found:
        heads, rule, *lines = one.split("\n")
        assert set(rule) == set("|-")
        assert {line.count("|") for line in lines} == {heads.count("|")}
