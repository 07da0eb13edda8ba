"""Published remedies for entropy collapse: tables of tokens in, token losses out."""

from entrometer.interventions.adaptive_bonus import adaptive_bonus
from entrometer.interventions.ce_gppo import ce_gppo
from entrometer.interventions.cispo import cispo
from entrometer.interventions.clip_b import clip_b
from entrometer.interventions.clip_cov import clip_cov
from entrometer.interventions.clip_higher import clip_higher
from entrometer.interventions.clip_v import clip_v
from entrometer.interventions.entrocraft import entrocraft
from entrometer.interventions.entropy_bonus import entropy_bonus
from entrometer.interventions.frontier import frontier
from entrometer.interventions.high_entropy import high_entropy
from entrometer.interventions.kl_cov import kl_cov
from entrometer.interventions.loss import Intervention
from entrometer.interventions.plain import PLAIN, dr_grpo, grpo
from entrometer.interventions.registry import intervention_names, register
from entrometer.interventions.remedy import Remedy
from entrometer.interventions.sapo import sapo
from entrometer.interventions.signs import negative_reinforced, positive_only
from entrometer.interventions.stare import stare
from entrometer.interventions.steer import steer
from entrometer.interventions.tables import TokenTables, standardise, top
from entrometer.interventions.text import intervention

__all__ = [
    "PLAIN",
    "Intervention",
    "Remedy",
    "TokenTables",
    "adaptive_bonus",
    "ce_gppo",
    "cispo",
    "clip_b",
    "clip_cov",
    "clip_higher",
    "clip_v",
    "dr_grpo",
    "entrocraft",
    "entropy_bonus",
    "frontier",
    "grpo",
    "high_entropy",
    "intervention",
    "intervention_names",
    "kl_cov",
    "negative_reinforced",
    "positive_only",
    "register",
    "sapo",
    "standardise",
    "stare",
    "steer",
    "top",
]
