"""A made-up measurement of influence whose numbers behave as those of a real one do."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from entrometer.runs.tables.influence import (
    Balance,
    Diagonal,
    Group,
    InfluenceTables,
    Removal,
    Response,
    Score,
    Token,
)

RATE = 3e-4
WORDS = (
    *("The", " answer", " is", " ", "1", "7", "4", " +", " −", " =", " so", ",", "."),
    *(" we", " get", " then", "\n", " let", " me", " check", " 12", " 30", " total"),
)
SCORES = (
    *(
        "|α|·(−S)",
        "covariance",
        "−S",
        "H",
        "|advantage|",
        "position",
        "H·(−S)",
        "noise",
    ),
)
Who = dict[str, Any]
OBJECTIVES = ("entropy", "reward")


@dataclass(frozen=True)
class Shape:
    """What is made up."""

    checkpoints: Sequence[str] = ("checkpoint-8", "checkpoint-40")
    updates: Sequence[str] = ("recorded",)
    responses: int = 64
    length: int = 30
    """Mean tokens of a response."""
    per_prompt: int = 8
    words: Sequence[str] = WORDS
    rate: float = RATE


def influence(shape: Shape, seed: int = 0) -> InfluenceTables:
    """Tables with heavy tails, sums that agree, and a few tokens that do most."""
    rng = np.random.default_rng(seed)
    made = InfluenceTables()
    for place, checkpoint in enumerate(shape.checkpoints):
        for update in shape.updates:
            who: Who = {"checkpoint": checkpoint, "update": update}
            tokens = _tokens(who, shape, rng)
            made.tokens.extend(tokens)
            made.responses.extend(_responses(who, tokens, rng))
            made.balance.extend(_balance(who, tokens, shape, 8 + 32 * place))
            made.groups.extend(_groups(who, tokens))
            made.scores.extend(_scores(who, len(tokens), shape.responses, rng))
            made.diagonals.extend(_diagonals(who, shape))
            made.removals.extend(_removals(who, tokens, shape.rate, rng))
    return made


def _tokens(who: Who, shape: Shape, rng: np.random.Generator) -> list[Token]:
    rows = []
    lengths = rng.poisson(shape.length - 2, shape.responses) + 2
    for response, length in enumerate(lengths.tolist()):
        advantage = float(rng.normal())
        entropy = rng.gamma(0.5, 0.8, length)
        surprisal = rng.exponential(entropy + 1e-3)
        pull = advantage / (shape.responses * length)
        tail = rng.standard_t(2.2, (2, length))
        # What is certain moves nothing; surprises that are rewarded raise entropy.
        moved = pull * entropy * np.stack((surprisal - entropy, np.ones(length)))
        moved = moved * 400 + 4 * abs(pull) * entropy * tail
        for position in range(length):
            last = position == length - 1
            text = "<|im_end|>" if last else str(rng.choice(shape.words))
            rows.append(
                Token(
                    **who,
                    response=response,
                    group=response // shape.per_prompt,
                    position=position,
                    token=2 if last else 100 + position,
                    text=text,
                    kind="end" if last else _kind(text),
                    advantage=advantage,
                    alpha=pull,
                    S=-float(surprisal[position]),
                    H=float(entropy[position]),
                    entropy=float(moved[0, position]),
                    entropy_se=float(0.2 * abs(moved[0, position]) + abs(pull)),
                    reward=float(moved[1, position]),
                    reward_se=float(0.3 * abs(moved[1, position]) + abs(pull)),
                )
            )
    return rows


def _kind(text: str) -> str:
    bare = text.strip()
    if not bare:
        return "space"
    if bare.isdigit():
        return "digit"
    return "word" if bare.isalpha() else "sign"


def _responses(
    who: Who, tokens: Sequence[Token], rng: np.random.Generator
) -> list[Response]:
    texts: dict[int, list[Token]] = {}
    for token in tokens:
        texts.setdefault(token.response, []).append(token)
    return [
        Response(
            **who,
            response=number,
            group=own[0].group,
            prompt_text=f"Ann has {own[0].group + 3} apples and buys "
            f"{own[0].group % 7 + 2} more. How many has she now?",
            text="".join(t.text for t in own[:-1]),
            reward=float(rng.integers(2)),
        )
        for number, own in texts.items()
    ]


def _value(value: float, se: float) -> dict[str, Any]:
    return {
        "value": value,
        "value_se": se,
        "value_low": value - 2 * se,
        "value_high": value + 2 * se,
    }


def _balance(
    who: Who, tokens: Sequence[Token], shape: Shape, step: int
) -> list[Balance]:
    rows = []
    for objective in OBJECTIVES:
        batch = math.fsum(getattr(t, objective) for t in tokens)
        parts = {"batch": batch, "history": 1.7 * batch + 3.0, "decay": 0.02 * batch}
        parts["total"] = sum(parts.values())
        past = {"past-1": 0.8 * batch, "past-2": 0.5 * batch + 2.0}
        past["older"] = parts["history"] - sum(past.values())
        rows += [
            Balance(
                **who,
                precision="float32",
                step=step,
                learning_rate=shape.rate,
                objective=objective,
                part=part,
                **_value(value, 0.15 * abs(value) + 0.3),
                prompts=256,
                folds=8,
            )
            for part, value in (parts | past).items()
        ]
    return rows


def _groups(who: Who, tokens: Sequence[Token]) -> list[Group]:
    groups: dict[tuple[str, str], list[Token]] = {}
    for t in tokens:
        start = t.position // 10 * 10
        for by, name in (
            ("response", str(t.response)),
            ("prompt", str(t.group)),
            ("advantage", "positive" if t.advantage > 0 else "negative"),
            ("position", f"{start}–{start + 9}"),
            ("kind", t.kind),
        ):
            groups.setdefault((by, name), []).append(t)
    rows = []
    for objective in OBJECTIVES:
        for (by, name), own in groups.items():
            value = math.fsum(getattr(t, objective) for t in own)
            noise = math.sqrt(sum(getattr(t, f"{objective}_se") ** 2 for t in own))
            how: Who = {"objective": objective, "by": by, "name": name}
            rows.append(
                Group(**who, **how, tokens=len(own), **_value(value, 1.5 * noise))
            )
    return rows


def _scores(
    who: Who, tokens: int, responses: int, rng: np.random.Generator
) -> list[Score]:
    rows = []
    for level, count in (("token", tokens), ("response", responses)):
        for target in ("entropy", "entropy alone"):
            for place, score in enumerate(SCORES):
                rho = 0.7 - 0.12 * place + float(rng.normal(0, 0.04))
                width = 1.2 / math.sqrt(min(count, 400))
                rows.append(
                    Score(
                        **who,
                        level=level,
                        score=score,
                        target=target,
                        rho=rho,
                        rho_low=rho - width,
                        rho_high=rho + width,
                        found=max(0.0, 0.5 - 0.07 * place),
                        count=count,
                    )
                )
    return rows


def _diagonals(who: Who, shape: Shape) -> list[Diagonal]:
    n, k = shape.responses, shape.per_prompt
    blocks = {"self": (-9.1, n), "prompt": (2.2, n * (k - 1)), "other": (-4.0, n * n)}
    return [
        Diagonal(**who, block=block, value=value, pairs=pairs)
        for block, (value, pairs) in blocks.items()
    ]


def _removals(
    who: Who,
    tokens: Sequence[Token],
    rate: float,
    rng: np.random.Generator,
) -> list[Removal]:
    rows = []
    for objective in OBJECTIVES:
        whole = rate * math.fsum(getattr(t, objective) for t in tokens)
        for by, most in (("influence", 0.9), ("covariance", 0.5), ("random", 0.1)):
            for share in (0.01, 0.05):
                predicted = -whole * most * share**0.3
                observed = predicted * (1 + float(rng.normal(0, 0.1)))
                se = 0.1 * abs(whole) * share**0.2
                ends: dict[str, Any] = {
                    f"{name}{end}": value + step * se
                    for name, value in (
                        ("predicted", predicted),
                        ("observed", observed),
                    )
                    for end, step in (("", 0), ("_low", -2), ("_high", 2))
                }
                rows.append(
                    Removal(
                        **who,
                        by=by,
                        share=share,
                        tokens=round(share * len(tokens)),
                        eta=rate,
                        objective=objective,
                        predicted_se=se,
                        observed_se=se,
                        whole=whole,
                        **ends,
                    )
                )
    return rows
