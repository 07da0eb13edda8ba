"""An experiment on checkpoints as its users know it: from settings to a result."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from entrometer.api.progress import Ticker
from entrometer.api.settings import read_settings
from entrometer.errors import InvalidValue
from entrometer.experiments.config import ExperimentConfig
from entrometer.runs import hold, verified

if TYPE_CHECKING:
    from entrometer.engine import Engine
    from entrometer.experiments.forecast import Outlook

Config = TypeVar("Config", bound=ExperimentConfig)


class Functions(NamedTuple):
    """The functions of an experiment, which need torch."""

    carry_out: Callable[..., object]
    """`carry_out(config, run, store=, progress=, engine=)` leaves a run directory."""

    foresee: "Callable[[Any, Path], Outlook]"
    """`foresee(config, store)` plans it, and times a little of it."""


def records(found: object, *names: str) -> dict[str, Any]:
    """Rows of some of the tables of a run, as plain records."""
    return {name: [asdict(row) for row in getattr(found, name)] for name in names}


@dataclass(frozen=True)
class Experiment(Generic[Config]):
    """What an experiment is called, what it is told, does and leaves."""

    verb: str
    """Of the command line."""

    kind: str
    """What the manifest of its results says."""

    tables: Mapping[str, type]
    """Classes of rows by the name of their table; the first is the main one."""

    config: type[Config]

    functions: Callable[[], Functions]
    """Loads it; help is told without."""

    text: Callable[[Path], Sequence[str]]
    """The tables of a finished run, as paragraphs."""

    rows: Callable[[Path], dict[str, Any]]
    """The same as records."""

    def carry_out(
        self,
        config: Config,
        directory: Path,
        store: Path | None = None,
        engine: "Engine | None" = None,
    ) -> None:
        """Carry the experiment out, and show how far it has come."""
        self.require_own(directory)
        with hold(directory), Ticker(log=directory / "progress.log") as ticker:
            # An older one would be sealed with the new results.
            (directory / "report.html").unlink(missing_ok=True)
            progress = partial(ticker.work, self.verb)
            self.functions().carry_out(
                config, directory, store=store, progress=progress, engine=engine
            )

    def require_own(self, directory: Path) -> None:
        """Refuse to write over what a training or another experiment left."""
        kind = (verified(directory, names=()) or {}).get("kind", self.kind)
        if kind != self.kind:
            raise InvalidValue(
                f"{directory} holds another run ({kind}); choose another directory "
                "with --run"
            )
        if (directory / "config.json").exists():
            try:
                read_settings(self.verb, self.config, directory)
            except InvalidValue as error:
                raise InvalidValue(
                    f"{directory} holds something else; choose another directory with "
                    f"--run ({error})"
                ) from error
