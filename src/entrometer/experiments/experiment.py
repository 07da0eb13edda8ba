"""The record of an experiment: one object that says everything about it.

The command line, the Python calls, `replay`, `report` and the engine read this object;
the manifest of a run names it. A user registers an experiment from a file of their own
with `register`, and it has all of them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    NamedTuple,
    Protocol,
    TypeVar,
    runtime_checkable,
)

from entrometer.errors import InvalidValue, nearest_name
from entrometer.experiments.config import CheckpointConfig
from entrometer.report.kinds import PageParts, RunKind

if TYPE_CHECKING:
    # Requests import torch, which `--help` does without.
    from entrometer.experiments.requests import Request, Subject

Config = TypeVar("Config", bound=CheckpointConfig)
Tables = TypeVar("Tables")


@runtime_checkable
class Point(Protocol):
    """What an experiment plans for one checkpoint, or for one update of it."""

    @property
    def name(self) -> str:
        """Name in tables and in about.json."""

    @property
    def subject(self) -> "Subject":
        """The policy that is measured."""

    def requests(self) -> Iterable["Request"]:
        """Yield all passes that are known so far, each after those it depends on."""


class Steps(NamedTuple):
    """The functions of an experiment that need torch."""

    plan: Callable[[Any], Sequence[Any]]
    """`plan(config)` returns the points; reads files, and loads no model."""

    collect: Callable[[Any, Sequence[Any], Path], Any]
    """`collect(config, points, store)` returns the tables, once every pass is done."""

    summarize: Callable[[Any, Any], dict[str, Any]]
    """`summarize(config, tables)` returns a title, sentences and warnings."""

    follow_up: Callable[[Any, Sequence[Any], Path], Sequence[Any]] | None = None
    """`follow_up(config, points, store)` returns the points with passes added that
    depend on results; placeholders of the same cost while the store lacks those."""

    seconds_after: Callable[[Any, Sequence[Any], float], float] | None = None
    """`seconds_after(config, points, tokens)` estimates the seconds of `collect` for
    `tokens` tokens per response; leave it out if `collect` takes next to no time."""

    rounds: Callable[[Any], int] = lambda config: 1
    """`rounds(config)` returns how many times `follow_up` is called, each time after
    the passes that it added before."""

    guess: Callable[[Any, Sequence[Any], Path], Sequence[Any]] | None = None
    """`guess(config, points, store)` returns the points with placeholders for the
    passes of all rounds, if `follow_up` adds those of the next round alone."""

    def expected(
        self, config: Any, points: Sequence[Any], store: Path
    ) -> Sequence[Any]:
        """Return the points with all passes to come, or placeholders of their cost."""
        complete = self.guess or self.follow_up
        return points if complete is None else complete(config, points, store)


def no_text(tables: object) -> Sequence[str]:
    """Return no paragraphs: the summary is all that is printed."""
    return ()


def all_rows(tables: object) -> Mapping[str, Sequence[Any]]:
    """Return the rows of every table, by the name of the table."""
    return dict(vars(tables))


@dataclass(frozen=True)
class Experiment(Generic[Config, Tables]):
    """Everything about an experiment: name, settings, passes, tables, texts, page."""

    name: str
    """Verb of the command line, and the kind that a run's manifest names."""

    help: str
    """What the experiment answers, in one sentence."""

    config: type[Config]  #: Class of the settings.

    tables: type[Tables]
    """Dataclass with one field `name: list[Row]` per table, the main one first."""

    steps: Callable[[], Steps]
    """Imports and returns the functions; `--help` does without them."""

    text: Callable[[Tables], Sequence[str]] = no_text
    """Returns the tables of a finished run as paragraphs for a terminal."""

    json_rows: Callable[[Tables], Mapping[str, Sequence[Any]]] = all_rows
    """Returns the rows that `--json` prints, by table."""

    page: Callable[[], PageParts[Any]] = PageParts
    """Returns what the runs add to a report page; by default their tables."""

    inside_training: bool = False
    """Whether the default run directory is in the training's directory."""

    grades: bool = False
    """Whether it needs the rewards of fresh responses, so a reward function."""

    unstable: Mapping[str, tuple[str, ...]] | None = None
    """Columns by table that `replay` skips: they vary from run to run, as times do."""

    @property
    def run_kind(self) -> RunKind[Tables]:
        """What a report needs to read and draw the runs."""
        return RunKind(name=self.name, tables=self.tables, parts=self.page)


_BUILT_IN = {
    "diagnose": "diagnose",
    "eval": "evaluation",
    "measure": "measure",
    "influence": "influence",
    "kernel": "kernel",
    "compare": "compare",
    "mismatch": "mismatch",
    "fork": "fork",
    "trajectory": "trajectory",
}
"""Package of each built-in experiment, imported when it is first needed."""

_REGISTERED: dict[str, Experiment[Any, Any]] = {}


def register(experiment: Experiment[Config, Tables]) -> Experiment[Config, Tables]:
    """Add and return an experiment, replacing a user's earlier one of the same name."""
    # Built-in experiments call this function too, from their own package.
    if experiment.name in _BUILT_IN:
        module = experiment.config.__module__
        if not module.startswith(f"{__package__}."):
            raise InvalidValue(
                f"expected a name other than {experiment.name!r}, which a built-in "
                "experiment has; choose another"
            )
    _REGISTERED[experiment.name] = experiment
    return experiment


def experiment(name: str) -> Experiment[Any, Any]:
    """Return the experiment that has this name; raise if none has."""
    if name in _BUILT_IN:
        import_module(f"{__package__}.{_BUILT_IN[name]}")
    if name not in _REGISTERED:
        names = experiment_names()
        raise InvalidValue(
            f"no experiment {name!r}.{nearest_name(name, names)} There are: "
            f"{', '.join(names)}"
        )
    return _REGISTERED[name]


def experiment_names() -> list[str]:
    """Return the names of all experiments, the built-in ones first."""
    return list(dict.fromkeys([*_BUILT_IN, *_REGISTERED]))


def run_kinds() -> dict[str, RunKind[Any]]:
    """Return the `run_kind` of every experiment, by the experiment's name."""
    return {name: experiment(name).run_kind for name in experiment_names()}
