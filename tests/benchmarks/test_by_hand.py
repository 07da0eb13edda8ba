from benchmarks.interventions.by_hand import BY_HAND
from entrometer.interventions.registry import built_in_functions, remedy_of
from entrometer.interventions.registry import intervention_names as names


def test_every_loss_has_a_derivation_by_hand():
    package = {*built_in_functions().values()}
    assert {*BY_HAND} == {n for n in names() if remedy_of(n).function in package}
