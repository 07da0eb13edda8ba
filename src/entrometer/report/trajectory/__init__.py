"""Trajectories of trainings on a report page."""

from entrometer.report.kinds import PageParts
from entrometer.runs.tables.trajectory import TrajectoryTables

PARTS = PageParts[TrajectoryTables]()
