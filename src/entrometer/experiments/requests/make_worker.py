"""Workers that know the tasks and interventions that the user registered."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from entrometer.experiments.experiment import experiment, experiment_names
from entrometer.experiments.requests.request import Worker
from entrometer.interventions.registry import Remedy, add_remedy, user_remedies
from entrometer.runs.content import own_modules
from entrometer.tasks import Task, register
from entrometer.tasks.registry import user_tasks

_OWN = f"{__name__.partition('.')[0]}."


@dataclass(frozen=True)
class MakeWorker:
    """Makes workers that know the user's tasks and interventions; can be pickled."""

    remedies: Mapping[str, Remedy]
    tasks: Mapping[str, Callable[..., Task]]

    @classmethod
    def with_registered(cls) -> "MakeWorker":
        """Return a maker with the tasks and interventions that the user registered."""
        return cls(user_remedies(), user_tasks())

    @property
    def modules(self) -> list[ModuleType]:
        """Modules of the user's experiments, sent as code: workers lack the files."""
        return [
            module
            for name in experiment_names()
            if not (config := experiment(name).config).__module__.startswith(_OWN)
            for module in own_modules(config)
        ]

    def __call__(self, store: Path) -> Worker:
        """Register the tasks and interventions in this process; return a new worker."""
        # The registries of another process are empty.
        for name, remedy in self.remedies.items():
            add_remedy(name, remedy)
        for name, factory in self.tasks.items():
            register(name)(factory)
        return Worker(store)

    def __reduce__(self) -> tuple[Any, ...]:
        # By value: workers do not have the user's files.
        # Only here: the package works without Ray, and then nothing is sent.
        from entrometer.engine.by_value import dumped

        remedies = {
            name: dumped(f"an intervention {name!r}", r, own_modules(r.function))
            for name, r in self.remedies.items()
        }
        tasks = {
            name: dumped(f"a task {name!r}", factory, own_modules(factory))
            for name, factory in self.tasks.items()
        }
        return _received, (remedies, tasks)


def _received(remedies: dict[str, bytes], tasks: dict[str, bytes]) -> MakeWorker:
    from entrometer.engine.by_value import loaded

    return MakeWorker(
        {name: loaded(content) for name, content in remedies.items()},
        {name: loaded(content) for name, content in tasks.items()},
    )
