"""Read checkpoints and update batches of other frameworks."""

from entrometer.importers.checkpoint import ForeignCheckpoint as ForeignCheckpoint
from entrometer.importers.checkpoint import Lora as Lora
from entrometer.importers.checkpoint import write_checkpoint as write_checkpoint
from entrometer.importers.prime_rl import read_prime_rl as read_prime_rl
from entrometer.importers.read import dump_reader as dump_reader
from entrometer.importers.read import read_foreign as read_foreign
from entrometer.importers.sharded import ShardedTensor as ShardedTensor
from entrometer.importers.slime import read_slime as read_slime
