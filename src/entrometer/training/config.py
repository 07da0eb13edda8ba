"""What a training run is: every setting, in one frozen object."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from entrometer.errors import MOST, InvalidValue, nearest_name, require_types

_PLAIN = "dr-grpo"


@dataclass(frozen=True, kw_only=True)
class AdapterConfig:
    """A LoRA adapter, which alone is trained."""

    rank: int = 8
    """Rank of the two factors."""

    alpha: int = 16
    """The product of the factors is scaled by alpha over rank."""

    modules: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")
    """Linear layers that get one, by the last part of their names."""

    def __post_init__(self) -> None:
        """Refuse values of another type."""
        require_types(self)


@dataclass(frozen=True, kw_only=True)
class ImitationConfig:
    """Supervised steps on demonstrations, so that the format is known at the start."""

    steps: int = 100
    """Optimizer steps; 0 for none."""

    batch: int = 16
    """Demonstrations an update."""

    learning_rate: float = 5e-4
    """Peak; falls linearly to 0."""

    warmup: int = 10
    """Steps over which the learning rate rises."""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        require_types(self)
        if self.steps < 0 or self.batch < 1:
            raise InvalidValue(
                "expected imitation steps from 0 and a batch from 1, got "
                f"steps={self.steps} and batch={self.batch}; change them"
            )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Imitation, then Dr-GRPO.

    The learning rate of Dr-GRPO is constant and its problems are a fixed number, so a
    run that is prolonged is the run that would have been longer from the start.
    """

    policy: str = "tiny"
    """Name or directory of the model to begin with."""

    task: str = "arithmetic"
    """Name of the task."""

    level: str | None = None
    """Level of the task, for one that has levels."""

    problems: int = 2048
    """Problems of the training split to draw from."""

    adapter: AdapterConfig | None = AdapterConfig()
    """The adapter to train; None trains every parameter."""

    imitation: ImitationConfig = ImitationConfig()
    """What comes before Dr-GRPO."""

    steps: int = 64
    """Optimizer steps of Dr-GRPO."""

    save_every: int = 8
    """Steps from one checkpoint to the next; there is one at 0 too."""

    prompts: int = 8
    """Prompts an update."""

    responses: int = 8
    """Responses a prompt: the group that shares a baseline."""

    micro_batch: int = 16
    """Responses that a process takes through the model at once."""

    window: int = 1
    """Updates made from one round of sampling, over different responses."""

    iterations: int = 1
    """Times that a round of responses is gone over."""

    learning_rate: float = 1e-5
    """Of AdamW, constant."""

    betas: tuple[float, float] = (0.9, 0.999)
    """Of AdamW."""

    weight_decay: float = 0.0
    """Of AdamW."""

    max_grad_norm: float = 1.0
    """Norm that gradients are clipped to; 0 for no clipping."""

    temperature: float = 1.0
    """At which responses are sampled."""

    max_tokens: int = 64
    """Length limit of a response."""

    format_weight: float = 0.0
    """Weight of the format in the reward; the verified answer has 1."""

    intervention: str = _PLAIN
    """What is done to the loss: a name, or `name:setting=value,setting=value`. The page
    on interventions lists the names, and so does the answer to any other."""

    predict_every: int = 0
    """Steps from one prediction of the entropy change to the next; 0 for none."""

    predict_prompts: int = 32
    """Held-out prompts that a prediction samples."""

    report_to: str = "none"
    """Tracker that metrics go to as well: tensorboard, wandb, trackio; several parted
    by commas."""

    seed: int = 0
    """Of everything that is drawn."""

    def __post_init__(self) -> None:
        """Refuse what cannot be trained."""
        require_types(self)
        positive = (
            "problems",
            "steps",
            "save_every",
            "prompts",
            "micro_batch",
            "window",
            "iterations",
            "learning_rate",
            "temperature",
            "max_tokens",
            "predict_prompts",
        )
        for name in positive:
            if not getattr(self, name) > 0:
                raise InvalidValue(
                    f"expected {name} above 0, got {getattr(self, name)}; change it"
                )
        if not all(0 <= beta < 1 for beta in self.betas) or not 0 <= self.seed < 2**32:
            raise InvalidValue(
                "expected betas from 0 below 1 and a seed from 0 below 2**32, got "
                f"{self.betas} and {self.seed}; change them"
            )
        if self.problems > MOST:
            raise InvalidValue(
                f"expected at most {MOST} problems, got {self.problems}; give fewer"
            )
        if self.responses < 2:
            raise InvalidValue(
                "expected at least 2 responses a prompt, which are compared with one "
                f"another, got responses={self.responses}; give more"
            )
        needed = self.prompts * self.window
        if self.problems < needed:
            raise InvalidValue(
                f"expected at least prompts x window = {self.prompts} x {self.window} "
                f"= {needed} problems, for a round of sampling takes as many different "
                f"ones, got problems={self.problems}; give more, or make prompts or "
                "window smaller"
            )
        if self.intervention != _PLAIN:
            # Interventions are torch's, and a plain config is read without it.
            from entrometer.training.trainable import trainable

            trainable(self.intervention)

    def task_settings(self) -> dict[str, str]:
        """What the task is made with, besides its name."""
        return {} if self.level is None else {"level": self.level}


_Config = TypeVar("_Config", AdapterConfig, ImitationConfig, TrainConfig)


def save_config(config: TrainConfig, run: Path, *, problems: str | None = None) -> None:
    """Write and seal the settings of a run.

    Args:
        config: The settings.
        run: Its directory.
        problems: Content key of its problems, which a resume compares.
    """
    # Here: settings, and with them `--help`, are there without tables and arrays.
    from entrometer.runs.locations import relative_source
    from entrometer.runs.settings import save_settings

    settings = asdict(config) | {"policy": relative_source(config.policy, run)}
    save_settings(run, settings, {"kind": "training", "problems": problems})


def read_config(run: Path) -> TrainConfig:
    """Read back what `save_config` wrote, refusing what was edited since.

    An unknown setting is refused by name.
    """
    path = run / "config.json"
    # Here: settings, and with them `--help`, are there without tables and arrays.
    from entrometer.runs.atomic import DamagedFile
    from entrometer.runs.locations import located
    from entrometer.runs.settings import sealed_settings
    from entrometer.runs.untrusted import read_json

    sealed_settings(run)
    try:
        values = read_json(path)
    except FileNotFoundError:
        raise InvalidValue(
            f"{path}: no such file, so {run} is not a training run; name the directory "
            "that `entrometer train` wrote"
        ) from None
    except DamagedFile as error:
        raise InvalidValue(str(error)) from error
    if isinstance(values.get("policy"), str):
        values["policy"] = located(values["policy"], run)
    if values.get("adapter") is not None:
        values["adapter"] = _build(AdapterConfig, path, values["adapter"])
    if "imitation" in values:
        values["imitation"] = _build(ImitationConfig, path, values["imitation"])
    return _build(TrainConfig, path, values)


def as_saved(config: TrainConfig, run: Path) -> TrainConfig:
    """Return the config as `read_config` reads it, however its path is spelled."""
    from entrometer.runs.locations import located, relative_source

    return replace(config, policy=located(relative_source(config.policy, run), run))


def _build(kind: type[_Config], path: Path, values: Any) -> _Config:
    known = [f.name for f in fields(kind)]
    if not isinstance(values, dict):
        raise InvalidValue(
            f"{path}: expected settings of {kind.__name__}, got {values!r}; restore it"
        )
    for name in values:
        if name not in known:
            raise InvalidValue(
                f"{path}: {name!r} is no setting of {kind.__name__}."
                f"{nearest_name(name, known)} Remove or correct it"
            )
    pairs: dict[str, Any] = {
        k: tuple(v) if isinstance(v, list) else v for k, v in values.items()
    }
    try:
        return kind(**pairs)
    except InvalidValue as error:
        raise InvalidValue(f"{path}: {error}") from error
    except TypeError as error:
        raise InvalidValue(
            f"{path}: expected settings of {kind.__name__}, got a value of another "
            f"type ({error}); correct it"
        ) from error
