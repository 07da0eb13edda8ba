"""The page of the losses has every registered one, and says where it acts."""

import re
from pathlib import Path

from entrometer.interventions.registry import built_in_functions, remedy_of
from entrometer.interventions.registry import intervention_names as names

PAGE = Path(__file__).parents[2] / "docs/interventions.md"


def test_the_table_has_every_loss_and_whether_it_acts_at_ratio_1():
    table = PAGE.read_text().partition("## The losses")[2].partition("\n\n#")[0]
    rows = [row.split(" | ") for row in table.splitlines() if row.startswith("| `")]
    acts = {
        name: at_ratio_1.startswith("acts")
        for first, _, at_ratio_1, _ in rows
        for name in re.findall("`(.+?)`", first)
    }
    package = {*built_in_functions().values()}
    own = {n: remedy_of(n) for n in names() if remedy_of(n).function in package}
    assert acts == {name: remedy.on_policy for name, remedy in own.items()}
