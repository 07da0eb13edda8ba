"""Draw precision.svg from the last line of `python -m benchmarks precision --json`.

Usage: python -m benchmarks precision --json | tail -1 > docs/figures/precision.json
       python docs/figures/precision.py
"""

import json
from pathlib import Path

import matplotlib.pyplot as plt

here = Path(__file__).parent
figures = json.loads((here / "precision.json").read_text())["figures"]
etas = figures["etas"]
# Told apart by marker and dash as well as by colour, for greyscale.
styles = {
    "float32": ("#b2182b", "s", ":"),
    "naive float64": ("#8c6d1f", "^", "--"),
    "true float64": ("#2166ac", "o", "-"),
}
plt.rcParams["svg.hashsalt"] = "precision"
fig, axes = plt.subplots(figsize=(7, 4.2))
for name, (colour, marker, dash) in styles.items():
    errors = figures["pair_relative_error"][name]["per_decision"]
    axes.loglog(etas, errors, dash, marker=marker, color=colour, label=name)
original = figures["pair_relative_error"]["true float64"]["original pairing"]
axes.loglog(
    etas, original, "-.", marker="x", color="#555555", label="true float64, not matched"
)
axes.axhline(1.0, color="#999999", linewidth=0.8)
axes.text(3e-8, 1.15, "prediction useless", fontsize=8, color="#555555")
axes.set_xlabel("learning rate η")
axes.set_ylabel("relative error |ηh′/Δh − 1|")
axes.grid(True, which="major", alpha=0.3)
axes.legend(frameon=False, fontsize=9)
fig.tight_layout()
fig.savefig(here / "precision.svg", metadata={"Date": None})
