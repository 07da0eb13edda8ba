"""The built-in experiments as functions of a config and a run directory."""

from functools import partial

from entrometer.experiments.compare import COMPARE
from entrometer.experiments.influence import INFLUENCE
from entrometer.experiments.kernel import KERNEL
from entrometer.experiments.measure import MEASURE
from entrometer.experiments.run import run_experiment

measure = partial(run_experiment, MEASURE)
influence = partial(run_experiment, INFLUENCE)
kernel = partial(run_experiment, KERNEL)
compare = partial(run_experiment, COMPARE)
