"""Every intervention against its closed form; clips under rewards of coin tosses."""

from benchmarks.harness import Report
from benchmarks.interventions.agreement import agreement
from benchmarks.interventions.random_rewards import one_sided_clips

COLUMNS = ["error_first", "error_later", "from_plain_first", "from_plain_later"]


def run() -> Report:
    checks, table = agreement()
    titles = ["error, r = 1", "error, r ≠ 1", "off plain, r = 1", "off plain, r ≠ 1"]
    print(f"{'intervention':<22}" + "".join(f"{title:>18}" for title in titles))
    for name, row in table.items():
        print(f"{name:<22}" + "".join(f"{row[c]:>18.1e}" for c in COLUMNS))
    clips, found = one_sided_clips()
    print(f"{'clip, rewards by lot':<22}{'Δh less none':>18}{'95%':>22}{'beyond':>14}")
    for side, row in found.items():
        interval = f"{row['lower']:.4f} to {row['upper']:.4f}"
        print(f"{side:<22}{row['mean']:>18.4f}{interval:>22}{row['beyond']:>14.1%}")
    return Report([*checks, *clips], {"interventions": table, "random_rewards": found})
