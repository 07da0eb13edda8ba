"""Draw growth.svg from the last line of `python -m benchmarks growth --json`.

Usage: python -m benchmarks growth --json | tail -1 > docs/figures/growth.json
       python docs/figures/growth.py
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

here = Path(__file__).parent
figures = json.loads((here / "growth.json").read_text())["figures"]
# Told apart by marker and dash as well as by colour, for greyscale.
styles = {"tiny": ("#b2182b", "s", "--"), "smollm2": ("#2166ac", "o", "-")}
plt.rcParams["svg.hashsalt"] = "growth"
fig, (token, peak, shard) = plt.subplots(1, 3, figsize=(10, 3.2))
for policy, (colour, marker, dash) in styles.items():
    sizes = figures["batches"][policy]
    for axes, name in ((token, "seconds_a_token"), (peak, "peak_bytes")):
        values = [size[name] for size in sizes.values()]
        mean = sum(values) / len(values)
        axes.semilogx(
            [int(n) for n in sizes],
            [value / mean for value in values],
            dash,
            marker=marker,
            color=colour,
            label=policy,
        )
for axes, name, slack in (
    (token, "time a token", 0.10),
    (peak, "peak memory of a worker", 0.025),
):
    axes.axhspan(1 - slack, 1 + slack, color="#999999", alpha=0.2, linewidth=0)
    axes.set_ylim(1 - 2 * slack, 1 + 2 * slack)
    axes.set_xlabel("responses of a batch")
    axes.set_ylabel(f"{name},\nover its mean")
    axes.legend(frameon=False, fontsize=9)
seconds = figures["manifests"]
shard.semilogx(
    [int(n) for n in seconds],
    [1e6 * value for value in seconds.values()],
    "-",
    marker="o",
    color="#2166ac",
)
shard.set_ylim(0, 1.2e6 * max(seconds.values()))
shard.set_xlabel("shards of a plan")
shard.set_ylabel("scheduling, µs a shard")
for axes in (token, peak, shard):
    axes.grid(True, which="major", alpha=0.3)
fig.tight_layout()
fig.savefig(here / "growth.svg", metadata={"Date": None})
