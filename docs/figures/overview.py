"""Draw overview.svg and overview-narrow.svg, the README's picture, from the studies.

Usage: python docs/figures/overview.py
"""

from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import TwoSlopeNorm

here = Path(__file__).parent
studies = here.parents[1] / "studies"
BLUE, RED, GREY = "#2166ac", "#b2182b", "#777777"
NAME = "checkpoint-24"


def collapse(ax: Axes) -> None:
    """Entropy over steps, and the step that the other panels are about."""
    metrics = pd.read_parquet(studies / "reference/metrics.parquet")
    entropy = metrics["entropy/token"].rolling(4, min_periods=1).mean()
    ax.plot(metrics["step"], entropy, color=BLUE)
    ax.axvline(24, color=GREY, lw=0.8, ls=":")
    ax.text(25, entropy.max() * 0.97, "which tokens\nof this update?", va="top", size=8)
    ax.set(xlabel="step of Dr-GRPO", ylabel="entropy, nats per token", ylim=(0, None))
    ax.set_title("Entropy collapses", loc="left")


def tokens(ax: Axes) -> None:
    """Responses of the update, every token coloured by its influence on entropy."""
    table = pd.read_parquet(studies / "influence/tokens.parquet")
    table = table[(table["checkpoint"] == NAME) & (table["update"] == "recorded")]
    shown = table.groupby("response")["entropy"].min().nsmallest(4).index
    norm = TwoSlopeNorm(0, -1.5, 1.5)
    ax.set(xlim=(0, 52), ylim=(-9.6, 0.6))
    ax.axis("off")
    line = 0.0
    for response in shown:
        own = table[table["response"] == response].sort_values("position")
        column = 0
        for text, influence in zip(own["text"], own["entropy"], strict=True):
            text = text.replace("<|im_end|>", "")
            if column + len(text) > 51:
                line, column = line - 1.05, 0
            ax.text(
                column,
                line,
                text,
                family="monospace",
                size=9.3,
                parse_math=False,
                bbox={
                    "facecolor": plt.colormaps["RdBu"](norm(influence)),
                    "edgecolor": "none",
                    "pad": 1.2,
                    "alpha": 0.75,
                },
            )
            column += len(text)
        line -= 1.4
    ax.set_title("These drain (red) and restore (blue)", loc="left")


def remedies(ax: Axes) -> None:
    """What losses keep: predicted by one half of the prompts, observed on the other.

    On the same half, prediction and observation would share the noise of its prompts.
    """
    table = pd.read_parquet(studies / "interventions/recorded/outcomes.parquet")
    table = table[table["tried"] & (table["objective"] == "entropy")]
    plain = table[table["name"] == "dr-grpo"].set_index("checkpoint")["elsewhere"]
    # The half that predicts chose the frontier's tokens.
    table = table[(table["changed"] > 0) & (table["name"] != "frontier")]
    gain = table["elsewhere"] - table["checkpoint"].map(plain)
    ax.axline((0, 0), slope=1, color=GREY, lw=0.8)
    ax.errorbar(
        1e3 * gain,
        1e3 * table["observed_gain"],
        yerr=1.96e3 * table["observed_gain_se"],
        fmt="o",
        ms=3,
        lw=0.6,
        color=BLUE,
    )
    ax.set(
        xlabel="predicted by half of the prompts",
        ylabel="step taken, on the other half",
    )
    ax.set_title("Remedies, 10⁻³ nats over plain", loc="left")


def save(name: str, **layout: Any) -> None:
    """Draw the three panels in one layout."""
    fig, axes = plt.subplots(**layout, layout="constrained")
    for ax, draw in zip(axes, (collapse, tokens, remedies), strict=True):
        ax.spines[["top", "right"]].set_visible(False)
        draw(ax)
    fig.savefig(here / name, metadata={"Date": None}, facecolor="white")


plt.rcParams |= {"svg.hashsalt": "overview", "font.size": 9}
save("overview.svg", ncols=3, figsize=(11.5, 3), width_ratios=(1, 1.5, 1))
# For screens on which three panels side by side cannot be read.
save("overview-narrow.svg", nrows=3, figsize=(5.3, 8), height_ratios=(1, 1.1, 1))
