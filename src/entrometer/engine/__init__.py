"""Where work is carried out: in this process, or on a Ray cluster (`on_ray`)."""

from entrometer.engine.local import LocalEngine
from entrometer.engine.manifest import Manifest, read_log
from entrometer.engine.work import (
    Engine,
    FailedWork,
    Progress,
    Row,
    Status,
    StoreTrouble,
    Work,
    quiet,
)

__all__ = [
    "Engine",
    "FailedWork",
    "LocalEngine",
    "Manifest",
    "Progress",
    "Row",
    "Status",
    "StoreTrouble",
    "Work",
    "quiet",
    "read_log",
]
