"""Models, adapters and checkpoints with their optimizer; precision; sampling."""

from entrometer.policy.adapter import add_adapter as add_adapter
from entrometer.policy.checkpoint import Checkpoint as Checkpoint
from entrometer.policy.checkpoint import load_checkpoint as load_checkpoint
from entrometer.policy.loading import load_policy as load_policy
from entrometer.policy.policy import Policy as Policy
from entrometer.policy.precision import LowPrecisionSpy as LowPrecisionSpy
from entrometer.policy.precision import Precision as Precision
from entrometer.policy.precision import float64_only as float64_only
from entrometer.policy.sampling import eos_tokens as eos_tokens
from entrometer.policy.sampling import sample as sample
from entrometer.policy.shared_prompts import SharedPrompts as SharedPrompts
from entrometer.policy.sources import SourceNotFound as SourceNotFound
from entrometer.policy.sources import UnreadableSource as UnreadableSource
from entrometer.policy.tiny import save_tiny as save_tiny
from entrometer.policy.tiny import tiny_policy as tiny_policy
from entrometer.policy.turns import Tool as Tool
from entrometer.policy.vllm_server import VllmServer as VllmServer
