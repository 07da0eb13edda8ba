"""Passes over the model: rollouts in, per-token tables and gradient vectors out."""

from entrometer.passes.batches import TOKEN_BUDGET as TOKEN_BUDGET
from entrometer.passes.batches import Batch as Batch
from entrometer.passes.batches import batches as batches
from entrometer.passes.batches import layout as layout
from entrometer.passes.choices import changed_choices as changed_choices
from entrometer.passes.choices import is_mixture as is_mixture
from entrometer.passes.forward import Concentration as Concentration
from entrometer.passes.forward import concentration as concentration
from entrometer.passes.forward import forward as forward
from entrometer.passes.forward import forward_along as forward_along
from entrometer.passes.head import HeadCurvatures as HeadCurvatures
from entrometer.passes.head import HeadGradient as HeadGradient
from entrometer.passes.head import HeadTangents as HeadTangents
from entrometer.passes.head import VocabularyHead as VocabularyHead
from entrometer.passes.jvp import JvpPass as JvpPass
from entrometer.passes.jvp import jvp as jvp
from entrometer.passes.jvp2 import Jvp2Pass as Jvp2Pass
from entrometer.passes.jvp2 import jvp2 as jvp2
from entrometer.passes.per_sequence import GradientRows as GradientRows
from entrometer.passes.per_sequence import per_sequence as per_sequence
from entrometer.passes.vjp import VjpPass as VjpPass
from entrometer.passes.vjp import VjpsPass as VjpsPass
from entrometer.passes.vjp import vjp as vjp
from entrometer.passes.vjp import vjps as vjps
