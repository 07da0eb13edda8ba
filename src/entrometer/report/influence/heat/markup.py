"""A response as markup: few bytes a token, its numbers beside it."""

from collections.abc import Sequence
from functools import cache

import numpy as np
from markupsafe import Markup

from entrometer.report.influence.heat.pack import LENGTH, pack
from entrometer.report.influence.heat.scale import QUANTITIES, Scale, letters
from entrometer.report.influence.updates import Answer
from entrometer.report.numbers import number, with_error
from entrometer.report.text import shown

_TOKEN = len("<b class=aaaa></b>") + LENGTH


def at_least(answer: Answer) -> int:
    """Bytes that an answer takes whatever its tokens are."""
    return _TOKEN * len(answer.tokens)


def response(answer: Answer, rate: float, scales: Sequence[Scale]) -> Markup:
    """What is known of a response, and its tokens in their colours."""
    rows = np.array(
        [
            (
                *(rate * t.entropy, rate * t.entropy_se),
                *(rate * t.reward, rate * t.reward_se),
                *(-t.S, t.H),
            )
            for t in answer.tokens
        ]
    )
    columns = (rows[:, 0], rows[:, 2], rows[:, 4], rows[:, 5])
    coloured = letters([s.classes(c) for s, c in zip(scales, columns, strict=True)])
    body = "".join(
        token(t.text, own) for t, own in zip(answer.tokens, coloured, strict=True)
    )
    # The codes are of characters that an attribute holds as they are.
    return Markup(
        f"<p class=facts>{facts(answer)}</p>"
        f"<p class=t tabindex=0 role=group aria-label=Tokens "
        f'data-v="{pack(rows.tolist())}">{body}</p>\n'
    )


def token(text: str, own: str) -> str:
    """A token with the letters of its colours; `u` is one that breaks the line."""
    tag = "u" if "\n" in text else "b"
    # One letter alone could be the name of a class of the page.
    name = own if len(own) == len(QUANTITIES) else f"_{own}"
    return f"<{tag} class={name}>{_shown(text)}</{tag}>"


def facts(answer: Answer) -> str:
    """What is known of a response, in numbers alone."""
    reward = answer.does["reward"]
    entropy = answer.does["entropy"]
    scored = answer.reward == answer.reward
    got = f"reward {number(answer.reward)}" if scored else "not scored"
    return (
        f"Response {answer.number}: {got}, advantage {number(answer.advantage, 2)}; "
        f"influence on entropy {with_error(entropy.value, entropy.se)}, "
        f"on reward {with_error(reward.value, reward.se)}"
    )


@cache
def _shown(text: str) -> str:
    return str(shown(text))
