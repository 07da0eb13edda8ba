import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators import Baseline, Weighting
from entrometer.estimators.entropy_change import require_baseline, require_per

ANY = Baseline(b=np.zeros(1), c=np.zeros(1))


@pytest.mark.parametrize(
    ("weighting", "baseline"),
    [
        (Weighting.SEQUENCE, None),
        (Weighting.PER_DECISION, None),
        (Weighting.DOUBLY_ROBUST, ANY),
    ],
)
def test_each_weighting_takes_what_it_needs(weighting, baseline):
    require_baseline(weighting, baseline)


@pytest.mark.parametrize(
    ("weighting", "baseline", "got"),
    [
        (Weighting.SEQUENCE, ANY, "got one with 'sequence'"),
        (Weighting.PER_DECISION, ANY, "got one with 'per_decision'"),
        (Weighting.DOUBLY_ROBUST, None, "got none with 'doubly_robust'"),
    ],
)
def test_a_baseline_belongs_to_the_doubly_robust_weighting_alone(
    weighting, baseline, got
):
    with pytest.raises(InvalidValue, match=got):
        require_baseline(weighting, baseline)


def test_names_are_what_a_config_writes():
    assert Weighting("per_decision") is Weighting.PER_DECISION
    assert [str(w) for w in Weighting] == ["sequence", "per_decision", "doubly_robust"]


def test_only_two_entropies_are_known():
    for per in ("token", "sequence"):
        require_per(per)
    with pytest.raises(InvalidValue, match="got 'tokens'"):
        require_per("tokens")
