"""Settings of a training run, and the file that stores them."""

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

from entrometer.errors import MOST, InvalidValue, nearest_name, require_types

_PLAIN = "dr-grpo"


@dataclass(frozen=True, kw_only=True)
class AdapterConfig:
    """A LoRA adapter. Only its weights are trained."""

    rank: int = 8  #: Rank of the two factors.
    alpha: int = 16  #: Numerator of the scale alpha / rank of their product.
    #: Linear layers to adapt, by the last part of their names.
    modules: tuple[str, ...] = ("q_proj", "k_proj", "v_proj", "o_proj")

    def __post_init__(self) -> None:
        require_types(self)


@dataclass(frozen=True, kw_only=True)
class ImitationConfig:
    """Supervised fine-tuning on demonstrations, to teach the format of the task."""

    steps: int = 100  #: Optimizer steps; 0 to skip imitation.
    batch: int = 16  #: Demonstrations per optimizer step.
    learning_rate: float = 5e-4  #: Peak learning rate, which then falls linearly to 0.
    warmup: int = 10  #: Steps over which the learning rate rises to its peak.

    def __post_init__(self) -> None:
        require_types(self)
        if self.steps < 0 or self.batch < 1:
            raise InvalidValue(
                "expected imitation steps from 0 and a batch from 1, got "
                f"steps={self.steps} and batch={self.batch}; change them"
            )


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Settings of a training: imitation, then Dr-GRPO.

    Learning rate and problems do not depend on the number of steps, so extending a
    finished run gives exactly the run that would have been longer from the start,
    unless its loss has a schedule.
    """

    policy: str = "tiny"  #: Name or directory of the model to start from.
    task: str = "arithmetic"  #: Name of the task.
    level: str | None = None  #: Difficulty level, for tasks that have levels.
    problems: int = 2048  #: Problems of the training split to draw prompts from.
    adapter: AdapterConfig | None = AdapterConfig()  #: None trains all parameters.
    imitation: ImitationConfig = ImitationConfig()  #: Supervised steps before Dr-GRPO.
    steps: int = 64  #: Optimizer steps of Dr-GRPO.
    save_every: int = 8  #: Steps between checkpoints; the first is at step 0.
    prompts: int = 8  #: Prompts per optimizer step.
    responses: int = 8  #: Responses per prompt; their mean reward is the baseline.
    micro_batch: int = 16  #: Responses per forward and backward pass of one process.
    window: int = 1  #: Steps per round of sampling, each on different responses.
    iterations: int = 1  #: Number of times each round of responses is trained on.
    learning_rate: float = 1e-5  #: Constant learning rate of AdamW.
    betas: tuple[float, float] = (0.9, 0.999)  #: Decay rates of AdamW's two moments.
    weight_decay: float = 0.0  #: Weight decay of AdamW.
    max_grad_norm: float = 1.0  #: Norm that gradients are clipped to; 0: no clipping.
    temperature: float = 1.0  #: Sampling temperature of the responses.
    max_tokens: int = 64  #: Maximum length of a response, in tokens.
    #: Weight of the format in the reward; the verified answer has weight 1.
    format_weight: float = 0.0
    #: Change to the loss: a name, or `name:setting=value,setting=value`.
    intervention: str = _PLAIN
    predict_every: int = 0  #: Steps between predictions of entropy change; 0: none.
    predict_prompts: int = 32  #: Held-out prompts sampled for each prediction.
    #: `none`, or trackers separated by commas: tensorboard, wandb, trackio.
    report_to: str = "none"
    seed: int = 0  #: Seed of all random draws.

    def __post_init__(self) -> None:
        require_types(self)
        for name in (
            *("problems", "steps", "save_every", "prompts", "micro_batch", "window"),
            *("iterations", "learning_rate", "temperature", "max_tokens"),
            "predict_prompts",
        ):
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
                "expected at least 2 responses per prompt, for they are compared with "
                f"each other, got responses={self.responses}; increase it"
            )
        needed = self.prompts * self.window
        if self.problems < needed:
            raise InvalidValue(
                f"expected at least prompts x window = {self.prompts} x {self.window} "
                f"= {needed} problems, for a round of sampling uses each once, got "
                f"problems={self.problems}; increase problems, or decrease the others"
            )
        if self.intervention != _PLAIN:
            # Imported only here: interventions need torch, which takes seconds to
            # import and which the config of a plain run does without.
            from entrometer.training.trainable import trainable

            trainable(self.intervention)

    def task_settings(self) -> dict[str, str]:
        """Return the arguments of the task besides its name."""
        return {} if self.level is None else {"level": self.level}


_Config = TypeVar("_Config", AdapterConfig, ImitationConfig, TrainConfig)


def save_config(config: TrainConfig, run: Path, *, problems: str | None = None) -> None:
    """Write and seal a run's config.json, with the key of its problems if given."""
    # Imported only here, so that `--help` needs neither pyarrow nor NumPy.
    from entrometer.runs.locations import relative_source
    from entrometer.runs.settings import save_settings

    settings = asdict(config) | {"policy": relative_source(config.policy, run)}
    save_settings(run, settings, {"kind": "training", "problems": problems})


def read_config(run: Path) -> TrainConfig:
    """Read what `save_config` wrote; raise if it was edited or has unknown settings."""
    path = run / "config.json"
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
    """Return the config as `read_config` returns it, with its paths normalized."""
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
                f"{path}: {name!r} is not a setting of {kind.__name__}."
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
            f"{path}: expected settings of {kind.__name__}, got a value of the wrong "
            f"type ({error}); correct it"
        ) from error
