"""Engines that run requests: in this process, or on a Ray cluster.

`ray_engine` is not imported here: the package works where Ray is not installed.
"""

from entrometer.engine.local import LocalEngine as LocalEngine
from entrometer.engine.manifest import Manifest as Manifest
from entrometer.engine.manifest import read_log as read_log
from entrometer.engine.work import Engine as Engine
from entrometer.engine.work import FailedWork as FailedWork
from entrometer.engine.work import Progress as Progress
from entrometer.engine.work import Row as Row
from entrometer.engine.work import Status as Status
from entrometer.engine.work import StoreTrouble as StoreTrouble
from entrometer.engine.work import Work as Work
from entrometer.engine.work import quiet as quiet
