"""Statistics of the Fisher kernel between sequences."""

from entrometer.estimators.kernel.blocks import BlockMean, block_mean, cosines
from entrometer.estimators.kernel.gradient_noise import gradient_noise, prompt_products
from entrometer.estimators.kernel.growth import PowerOfLength, growth_with_length
from entrometer.estimators.kernel.marchenko_pastur import MarchenkoPastur
from entrometer.estimators.kernel.prompt_pairs import BLOCKS, BlockName, block_mask
from entrometer.estimators.kernel.sketch_error import (
    expected_sketch_error,
    sketch_error,
)
from entrometer.estimators.kernel.spectrum import (
    effective_rank,
    eigenvalues,
    off_diagonal_share,
)

__all__ = [
    "BLOCKS",
    "BlockMean",
    "BlockName",
    "MarchenkoPastur",
    "PowerOfLength",
    "block_mask",
    "block_mean",
    "cosines",
    "effective_rank",
    "eigenvalues",
    "expected_sketch_error",
    "gradient_noise",
    "growth_with_length",
    "off_diagonal_share",
    "prompt_products",
    "sketch_error",
]
