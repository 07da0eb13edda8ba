"""Published remedies for entropy collapse: token tables in, token losses out.

One file per remedy. A file registers its remedies when it is imported, and this package
imports all of its files, so a new remedy needs a new file and no other change.
"""

from importlib import import_module
from pkgutil import iter_modules

from entrometer.interventions.loss import Intervention, intervention
from entrometer.interventions.plain import PLAIN, dr_grpo
from entrometer.interventions.registry import (
    Remedy,
    built_in_functions,
    intervention_names,
    register,
)
from entrometer.interventions.tables import TokenTables, top

__all__ = [
    "PLAIN",
    "Intervention",
    "Remedy",
    "TokenTables",
    "dr_grpo",
    "intervention",
    "intervention_names",
    "register",
    "top",
]

for _file in iter_modules(__path__):
    import_module(f"{__name__}.{_file.name}")

# The function of each remedy is a name of this package, for users and for the reference
# pages: `interventions.clip_b` is the function, not the file of the same name.
globals().update(built_in_functions())
__all__ += list(built_in_functions())
