"""Engines that run requests: in this process, or on a Ray cluster (`ray_engine`)."""

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

# Without `ray_engine`: the package works where Ray is not installed.
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
