"""Every registered intervention against its closed form, and against plain."""

# Axes: B responses, T tokens of a response, V tokens to choose from.

import math

import numpy as np
import torch
from torch import Tensor

from benchmarks.harness import Check, worst
from benchmarks.interventions.by_hand import BY_HAND, Batch
from entrometer.interventions import TokenTables, intervention, intervention_names

# Responses of a batch: in the small ones it shows how a count is rounded, or whether a
# deviation is divided by one less.
SIZES = [64] * 5 + [8] * 20
T, V, GROUP, LIMIT = 24, 7, 4, 32
ROUND_OFF = 1e-15

# Settings with which each side of a remedy acts on such batches, besides its defaults.
# Clip-Cov is drawn by lot: the same only if the lot falls on all candidates.
ACTING = {
    "adaptive-bonus": ["adaptive-bonus:target=9"],
    "clip-b": ["clip-b:mu=0.5", "clip-b:mu=1"],
    "clip-cov": ["clip-cov:rho=1,lower=0.2,upper=0.6", "clip-cov:rho=1,low=0.2"],
    "clip-v": ["clip-v:mu=0.5", "clip-v:mu=0.5,most=0.02", "clip-v:mu=1,most=1"],
    "entrocraft": [
        "entrocraft:upper_start=9,upper_end=9",
        "entrocraft:upper_start=9,upper_end=9,lower_start=9,lower_end=9",
    ],
    "bapo": ["bapo:share=0.6", "bapo:share=0.3,lower_start=0.2,lower_end=0.5"],
    "dppo": ["dppo:low=0.05,high=0.4", "dppo:high=inf,cap=2"],
    "dppo-engine": ["dppo-engine:low=0.05,high=0.4", "dppo-engine:high=inf,cap=1.2"],
    "tis": ["tis:cap=inf"],
    "frontier": ["frontier:price=2"],
    "gspo": ["gspo:low=0.2,high=0.1"],
    "kl-reference": ["kl-reference:form=1", "kl-reference:form=2,beta=0.3"],
    "mis": ["mis:least=0.3,most=20", "mis:most=inf"],
    "negative-filter": ["negative-filter:keep=0.5"],
    "qae": ["qae:level=0.75"],
    "stapo": ["stapo:unlikely=0.2", "stapo:unlikely=0.2,level=0.3"],
    "kl-cov": ["kl-cov:rho=0.1,beta=0.3"],
    "negative-reinforced": ["negative-reinforced:positive=0"],
    "positive-only": ["positive-only:negative=0.5"],
    "stare": [
        "stare:below=9",
        "stare:below=9,share=0.001",
        "stare:below=9,cut=0.9,share=0.25",
    ],
}


def texts(name: str) -> list[str]:
    """Of what is compared: the defaults, and settings that act."""
    defaults = [] if name == "clip-cov" else [name]
    return defaults + ACTING.get(name, [])


def random_tables(seed: int, B: int, *, spread: float) -> TokenTables:
    """Tables of distributions that are drawn whole, in float64.

    `spread` is of the logits of the policy that sampled around those of the policy.
    """
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    logits = 2.0 * normal(B, T, V)
    log_p = logits.log_softmax(dim=-1)
    log_q = (logits + spread * normal(B, T, V)).log_softmax(dim=-1)
    token = torch.multinomial(
        log_q.exp().flatten(0, 1), 1, generator=generator
    ).reshape(B, T, 1)
    p = log_p.exp()
    H = -(p * log_p).sum(dim=-1)
    S, S_old = (x.gather(-1, token).squeeze(-1) for x in (log_p, log_q))
    rewards = torch.rand(B, generator=generator, dtype=torch.float64)
    rewards = (rewards < 0.3).double().reshape(-1, GROUP)
    A = (rewards - rewards.mean(dim=1, keepdim=True)).reshape(B, 1)
    lengths = torch.randint(1, T + 1, (B, 1), generator=generator)
    S_old = S_old if spread else S
    return TokenTables(
        S=S,
        H=H,
        S_old=S_old,
        A=A.expand(B, T).clone(),
        mask=torch.arange(T) < lengths,
        group=torch.arange(B) // GROUP,
        length_limit=LIMIT,
        concentration=(p**2 * (log_p + H[..., None])).sum(dim=-1),
        influence=(normal(B, T), normal(B, T)),
        S_engine=S_old - 0.3 * normal(B, T),
        S_ref=S - 0.3 * normal(B, T),
        seed=seed,
        progress=0.25,
    )


def as_batch(tables: TokenTables) -> Batch:
    """The same as arrays, with 0 off the mask."""

    def array(x: Tensor | None) -> np.ndarray:
        assert x is not None
        return x.where(tables.mask, 0.0).numpy()

    I_h, I_J = tables.influence or (None, None)
    return Batch(
        S=array(tables.S),
        H=array(tables.H),
        S_old=array(tables.S_old),
        A=tables.A.numpy(),
        mask=tables.mask.numpy(),
        group=tables.group.numpy(),
        L=tables.length_limit,
        C=array(tables.concentration),
        I_h=array(I_h),
        I_J=array(I_J),
        S_engine=array(tables.S_engine),
        S_ref=array(tables.S_ref),
        progress=tables.progress,
    )


def error(text: str, tables: TokenTables) -> float:
    """Largest difference from the closed form, over the largest pull."""
    own = intervention(text)
    if own.name not in BY_HAND:
        return math.nan
    batch = as_batch(tables)
    by_hand = BY_HAND[own.name](batch, **dict(own.settings))
    return worst(
        [
            _distance(
                got.numpy(),
                np.where(batch.mask, expected, 0.0) / (len(batch.S) * batch.L),
            )
            for got, expected in zip(own.coefficients(tables), by_hand, strict=True)
        ]
    )


def from_plain(name: str, tables: TokenTables) -> float:
    """Largest difference from plain, over the largest pull."""
    own = intervention(name).coefficients(tables)
    plain = intervention("dr-grpo").coefficients(tables)
    return max(_distance(x.numpy(), y.numpy()) for x, y in zip(own, plain, strict=True))


def agreement() -> tuple[list[Check], dict[str, dict[str, float]]]:
    """Checks of every intervention, and the table they are from."""
    first = [random_tables(k, B, spread=0.0) for k, B in enumerate(SIZES)]
    later = [random_tables(k, B, spread=0.5) for k, B in enumerate(SIZES)]
    checks, table = [], {}
    for name in intervention_names():
        own = texts(name)
        row = {
            "error_first": worst([error(t, x) for t in own for x in first]),
            "error_later": worst([error(t, x) for t in own for x in later]),
            "from_plain_first": max(from_plain(t, x) for t in own for x in first),
            "from_plain_later": max(from_plain(t, x) for t in own for x in later),
        }
        table[name] = row
        label = f"interventions.{name}"
        checks += [
            Check(f"{label}.error_first", row["error_first"], at_most=1e-10),
            Check(f"{label}.error_later", row["error_later"], at_most=1e-10),
        ]
        if name == "dr-grpo":
            continue
        # That it acts where it should: two that do nothing would agree as well.
        on_policy = intervention(name).remedy.on_policy
        limits = {"at_least": 1e-6} if on_policy else {"at_most": ROUND_OFF}
        checks += [
            Check(f"{label}.plain_first", row["from_plain_first"], **limits),
            Check(f"{label}.plain_later", row["from_plain_later"], at_least=1e-6),
        ]
    return checks, table


def _distance(got: np.ndarray, expected: np.ndarray) -> float:
    size = float(np.abs(expected).max())
    apart = float(np.abs(got - expected).max())
    return apart / size if size else apart
