"""A new remedy is one new file in the package, and nothing else."""

from tests.interventions.one_file import changed_files, printed, with_file

REMEDY = '''
"""Rare: unlikely tokens weigh less."""

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register("rare", by_token=True, strength="weight", strengths=(0.25, 0.5, 0.75))
def rare(tables: TokenTables, *, weight: float = 0.5) -> PerToken:
    return dr_grpo(tables) * (1 - (1 - weight) * (tables.p < 0.1))
'''

# One response of two tokens with p = 0.5 and p = 0.05, advantage 1, ratio 1.
USE = """
import json, torch
from entrometer import interventions
from entrometer.interventions import TokenTables, intervention, intervention_names

S = torch.tensor([[0.5, 0.05]], dtype=torch.float64).log()
ones = torch.ones_like(S)
tables = TokenTables(
    S=S, S_old=S, H=ones, A=ones, mask=ones.bool(), group=torch.zeros(1).long(),
    length_limit=2,
)
remedy = intervention("rare").remedy
print(json.dumps({
    "listed": "rare" in intervention_names() and "rare" in interventions.__all__,
    "settings": remedy.defaults,
    "text": str(intervention("rare:weight=0.25")),
    "sweep": [
        intervention(f"rare:{remedy.strength}={value}").coefficients(tables)
        .alpha.tolist() for value in remedy.strengths
    ],
    "user code": remedy.code,
}))
"""


def test_a_new_remedy_is_one_new_file(tmp_path):
    package = with_file(tmp_path, "interventions/rare.py", REMEDY)
    assert changed_files(package) == ["interventions/rare.py"]
    assert printed(package, USE) == {
        "listed": True,
        "settings": {"weight": 0.5},
        "text": "rare:weight=0.25",
        # Dr-GRPO's α is A/(BL) = 0.5; the rare token has `weight` times that.
        "sweep": [[[0.5, 0.125]], [[0.5, 0.25]], [[0.5, 0.375]]],
        "user code": "",
    }
