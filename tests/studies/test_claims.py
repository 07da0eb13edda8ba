"""What README, docs and studies say is what the committed tables give."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from entrometer.runs.rows import read_rows
from entrometer.runs.tables import compare, influence

ROOT = Path(__file__).parents[2]
STUDIES = ROOT / "studies"
COMMANDS = (
    *("signal", "influence_tables", "interventions_tables", "long_run_tables"),
    "next_batches_tables",
    "off_policy_tables",
    "workbench_methods_tables",
)
NUMBER = r"-?\d+(?:\.\d+)?"


def text(path):
    """A page on one line, with a plain minus and without marks of comments."""
    page = (ROOT / path).read_text(encoding="utf-8")
    page = re.sub(r"^# ?", "", page, flags=re.MULTILINE)
    return " ".join(page.split()).replace("−", "-")


def said(path, pattern):
    """Numbers in the one place of a page that a pattern finds."""
    (found,) = re.findall(pattern, text(path))
    return [float(x) for x in re.findall(NUMBER, found)]


@pytest.fixture(scope="module")
def printed():
    """Tables that each command prints, by their heads."""

    def run(name):
        pieces = []

        def keep(*some, sep=" "):
            pieces.append(sep.join(some))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("builtins.print", keep)
            runpy.run_path(str(STUDIES / f"{name}.py"), run_name="__main__")
        tables = "\n\n".join(pieces).split("\n\n")
        return {table.split("\n")[0]: table for table in tables}

    return {name: run(name) for name in COMMANDS}


def one(tables, head):
    """The table that has this among its heads."""
    (found,) = [table for heads, table in tables.items() if f"| {head} |" in heads]
    return found


def cells(table):
    """Rows of a table by their first cell."""
    rows = [line.strip("| ").split(" | ") for line in table.split("\n")[2:]]
    return {first: rest for first, *rest in rows}


@pytest.mark.parametrize(
    ("page", "command", "heads"),
    [
        (
            "interventions",
            "interventions_tables",
            [
                *("recorded, entropy", "recorded, reward"),
                *("stale, entropy", "stale, reward"),
                *("gains in", "gains of", "ρ of gains"),
            ],
        ),
        ("interventions", "long_run_tables", ["one step", "steps", "step"]),
        (
            "influence",
            "influence_tables",
            [r"Σ\|I_h\| in the top 1%", "tokens taken out, difference in"],
        ),
        (
            "next-batches",
            "next_batches_tables",
            [
                *(
                    "groups with signal",
                    "gain in entropy, one batch against the others",
                ),
                *("standard deviation of a gain", "gain in entropy, one step"),
                *("gain in entropy, per step over 32 steps", "tested", "rank ρ"),
                *("gain in reward, one step", "per nat of entropy"),
            ],
        ),
        ("off-policy", "off_policy_tables", ["16/8"]),
        (
            "workbench-methods",
            "workbench_methods_tables",
            [
                *("enumerated policy", "mean change per response", "observed Δh"),
                *("1% quantile", "excess kurtosis", "shared tokens", "new digit"),
                *("learning rates over the training's", "kernel of", "number"),
                *("variance, predicted", "noise scale, prompts"),
                *("feature", "one response"),
            ],
        ),
    ],
)
def test_tables_of_a_page_are_those_that_its_command_prints(
    printed, page, command, heads
):
    readme = (STUDIES / page / "README.md").read_text(encoding="utf-8")
    assert f"python -m studies.{command}" in readme
    for head in heads:
        assert one(printed[command], head) in readme, head


def ranks(printed, name):
    row = cells(one(printed["interventions_tables"], "ρ of gains"))[name]
    return [float(cell.split(" of ")[0]) for cell in row]


@pytest.mark.parametrize(
    ("path", "patterns"),
    [
        (
            "docs/results.md",
            {
                "entropy, recorded": r"gains in entropy with Spearman's ρ of (.*?) aga",
                "entropy, stale": r"on stale minibatches with (.*?)\. Gains in rew",
                "reward, recorded": r"to rank on 128 prompts: (.*?), and",
                "reward, stale": r"to rank on 128 prompts: .*?, and (.*?) on stale",
            },
        ),
        (
            "studies/interventions/README.md",
            {
                "entropy, recorded": r"On recorded batches ρ is (.*?) at checkpoints",
                "entropy, stale": r"on stale minibatches (0.*?)\. R²",
                "reward, recorded": r"Reward: no\.\*\* ρ is (.*?) on recorded",
                "reward, stale": r"on recorded batches and (.*?) on stale",
            },
        ),
    ],
)
def test_ranks_that_are_said_are_across_halves(printed, path, patterns):
    for name, pattern in patterns.items():
        assert said(path, pattern) == ranks(printed, name), name
    assert "python -m studies.interventions_tables" in text(path)


def test_ranks_are_of_predictions_by_the_half_that_does_not_observe(printed):
    for kind in ("recorded", "stale"):
        path = STUDIES / "interventions" / kind / "outcomes.parquet"
        rows = [o for o in read_rows(path, compare.Outcome) if o.tried]
        for objective in ("entropy", "reward"):
            found = ranks(printed, f"{objective}, {kind}")
            for step, rank in zip((8, 24, 40, 56), found, strict=True):
                own = [
                    o
                    for o in rows
                    if (o.checkpoint, o.objective) == (f"checkpoint-{step}", objective)
                ]
                plain = next(o for o in own if o.name == "dr-grpo")
                differing = [o for o in own if o.changed > 0]
                p = [o.elsewhere - plain.elsewhere for o in differing]
                g = [o.observed - plain.observed for o in differing]
                assert rank == round(stats.spearmanr(p, g).statistic, 2)


def test_gains_in_reward_are_no_more_than_chance_gives(printed):
    rows = cells(one(printed["interventions_tables"], "gains in"))
    gains, bold, expected, kept = map(float, rows["reward"])
    page = "studies/interventions/README.md"
    assert said(page, r"gain in reward\*\*: (.*?) intervals leave") == [bold, gains]
    assert said(page, r"leave 0 out where (\d+) are") == [round(expected)]
    assert kept == 0
    assert "keeps none of them" in text(page)
    _, bold, _, kept = map(float, rows["entropy"])
    assert said(page, r"Of the (\d+) bold gains in entropy it keeps \d+") == [bold]
    assert said(page, r"bold gains in entropy it keeps (\d+)") == [kept]


def test_five_remedies_are_plain_at_ratio_1_and_clip_v_everywhere(printed):
    rows = cells(
        one(
            printed["interventions_tables"], "as plain at every checkpoint and strength"
        )
    )
    ratios = {"ce-gppo", "cispo", "clip-higher", "kl-cov", "sapo"}
    assert set(rows["recorded"][0].split(", ")) == ratios | {"clip-v"}
    assert rows["stale"] == ["clip-v"]


def test_sizes_of_the_agreement_that_are_said_are_printed(printed):
    rows = cells(one(printed["interventions_tables"], "gains of"))
    page = "studies/interventions/README.md"
    r2 = {name: float(row[1]) for name, row in rows.items()}
    assert said(page, r"R² is (\S+ and \S+): sizes") == [
        *(r2["entropy, recorded"], r2["entropy, stale"])
    ]
    assert said(page, r"R² over all is (\S+), and \S+ without") == [r2["entropy, all"]]
    assert said(page, r"R² over all is \S+, and (\S+) without") == [
        r2["entropy, all, without GRPO"]
    ]
    assert all(x < 0 for name, x in r2.items() if name.startswith("reward"))


def test_share_of_the_top_hundredth_is_of_sizes_with_both_signs(printed):
    rows = cells(one(printed["influence_tables"], r"Σ\|I_h\| in the top 1%"))
    tops = []
    for name, row in rows.items():
        top, draining, raising = (float(x.rstrip("%")) for x in row[3:6])
        tops.append(top)
        assert draining > 0 < raising
        assert top == pytest.approx(draining + raising, abs=1)
        path = STUDIES / "influence" / "tokens.parquet"
        tokens = read_rows(path, influence.Token)
        own = [t for t in tokens if t.checkpoint == name and t.alpha]
        sizes = np.sort([abs(t.entropy) for t in own])
        most = sizes[-round(0.01 * sizes.size) :].sum() / sizes.sum()
        assert top == round(100 * most)
    ends = [min(tops), max(tops)]
    assert said("docs/results.md", r"1% of the tokens carry (.*?)% of") == ends
    page = "studies/influence/README.md"
    assert said(page, r"\*\*1% of the tokens carry (.*?)% of") == ends
    notebook = "docs/notebooks/study_influence.py"
    assert said(notebook, r"1% of the tokens carry (.*?)% ") == ends
    for path in ("docs/results.md", page, notebook):
        assert "python -m studies.influence_tables" in text(path)


def test_the_long_run_is_said_with_losses_as_units(printed):
    table = one(printed["long_run_tables"], "one step")
    *_, mean, _, by_losses = cells(table)["entropy, predicted"]
    ends = [float(x) for x in re.findall(r"[+-]?\d\.\d+", by_losses)]
    study, guide = "studies/interventions/README.md", "docs/how-to/choose.md"
    assert said(study, r"with ρ = (.*?), 95%") == [float(mean)]
    assert said(study, r"with ρ = .*?interval (\[.*?\])") == ends
    assert said(guide, r"with ρ = (.*?\])") == [float(mean), *ends]
    notebook = "docs/notebooks/study_interventions.py"
    assert said(notebook, r"interval of the mean ρ is (\[.*?\])") == ends
    for path in (study, guide, notebook):
        assert "python -m studies.long_run_tables" in text(path)


BATCH = r"of which (\d, \d, \d and \d) (?:prompts )?carry a gradient"
STALE = r"of which (\d, \d, \d and \d) do"


@pytest.mark.parametrize(
    "page", ["interventions", "influence", "entropy-change", "kernel"]
)
def test_a_study_says_which_batch_its_errors_are_given(printed, page):
    rows = cells(one(printed["signal"], "prompts with a gradient"))
    path = f"studies/{page}/README.md"
    counts = [int(cell.split(" of ")[0]) for cell in rows["the whole batch"]]
    assert said(path, BATCH) == counts
    assert "given one update batch" in text(path) or "given the one" in text(path)
    assert "python -m studies.signal" in text(path)
    if page == "interventions":
        (stale,) = [row for name, row in rows.items() if "stale" in name]
        assert said(path, STALE) == [int(cell.split(" of ")[0]) for cell in stale]


def test_the_reference_run_says_which_batches_its_errors_are_given(printed):
    (row,) = cells(one(printed["signal"], "step")).values()
    path = "studies/reference/README.md"
    assert said(path, r"8 prompts (\d, .*?) carry a gradient") == [*map(int, row)]
    assert "python -m studies.signal" in text(path)


def test_prompts_with_a_gradient_are_those_whose_tokens_have_one(printed):
    rows = cells(one(printed["signal"], "prompts with a gradient"))
    tokens = read_rows(STUDIES / "influence" / "tokens.parquet", influence.Token)
    for step, cell in zip((8, 24, 40, 56), rows["the whole batch"], strict=True):
        own = [t for t in tokens if t.checkpoint == f"checkpoint-{step}"]
        carrying = {t.group for t in own if t.alpha != 0}
        assert cell == f"{len(carrying)} of {len({t.group for t in own})} prompts"


def test_verdicts_on_the_next_batches_are_those_of_the_tables(printed):
    tables, page = printed["next_batches_tables"], "studies/next-batches/README.md"
    misled = one(tables, "gain in entropy, one batch against the others")
    signs = [float(x.rstrip("%")) for x in cells(misled)["signs that are right"]]
    for path in (page, "docs/results.md"):
        assert said(
            path, r"sign of a gain in entropy by a single batch (.*?) of case"
        ) == (signs)
    rows = cells(one(tables, "groups with signal"))
    parts = []
    # At the last checkpoint the sign of a step is not known, so it has no parts.
    *first, last = rows.values()
    for _, whole, momentum, following, *_ in first:
        low, high = map(float, following.strip("[]").split(", "))
        assert low < high < 0
        parts.append(float(momentum.split()[0]) / float(whole.split()[0]))
    low, high = map(float, last[3].strip("[]").split(", "))
    assert low < 0 < high
    assert last[4] == f"{said(page, r'limit it: (.*?) of the variance')[0]:.0f}%"
    shares = said(page, r"is momentum's\*\*: (.*?) of the expected")
    assert shares == pytest.approx([100 * x for x in parts], abs=2)
    kept = [
        list(cells(one(tables, f"gain in entropy, {steps}")).items())
        for steps in ("one step", "per step over 32 steps")
    ]
    for rows in kept:
        passing = {loss for loss, row in rows if all("**" in x for x in row)}
        bonuses = {
            *("entropy-bonus:alpha=0.003", "entropy-bonus"),
            "entropy-bonus:alpha=0.03",
        }
        assert passing == bonuses
        by_loss = dict(rows)
        for loss, passes in [
            ("clip-cov:rho=0.02", [True, True, True, False]),
            ("clip-cov", [True, False, True, False]),
            ("adaptive-bonus", [False, False, True, True]),
        ]:
            assert ["**" in x for x in by_loss[loss]] == passes
    counts = one(tables, "tested").split("\n")[2:]
    (reward,) = [line for line in counts if "reward" in line]
    assert reward.endswith("| 0 |")
    kept_up = [line.strip("| ").split(" | ") for line in counts if "| 32 |" in line]
    passed = [[float(kept_up[0][5]), float(kept_up[0][2])]]
    assert [
        said("docs/results.md", r"false discovery rate of 5%, (\d+ of \d+) gains")
    ] == passed


def test_the_readme_begins_with_the_agreement_of_other_batches(printed):
    table = one(printed["next_batches_tables"], "rank ρ")
    rows = [line.strip("| ").split(" | ") for line in table.split("\n")[2:]]
    for objective, head in (
        (
            "entropy",
            r"\| \*\*entropy: 7 other batches.*?\*\*, to first order \|(.*?\]) \|\n",
        ),
        ("reward", r"\| reward: the same \|(.*?\]) \|\n"),
    ):
        (row,) = re.findall(head, (ROOT / "README.md").read_text(encoding="utf-8"))
        found = re.findall(NUMBER, row.replace("−", "-"))
        expected = " ".join(row[3] for row in rows if row[0] == objective)
        assert [*map(float, found)] == [*map(float, re.findall(NUMBER, expected))]
    taken = said("README.md", r"step taken; 9 to 12 losses \|(.*?) \| One")
    assert taken == ranks(printed, "entropy, recorded")
    losses = {int(row[2]) for row in rows}
    assert losses == {17, 18}


METHODS = "studies/workbench-methods/README.md"
WEIGHTS = "mean change per response"
ERRORS, SLOPES = "1% quantile", "learning rates over the training's"
VARIANCE, SCALE = "variance, predicted", "noise scale, prompts"


@pytest.mark.parametrize(
    ("head", "row", "column", "pattern"),
    [
        (
            *(WEIGHTS, "20 | self-normalised sequence weights"),
            *("prompts needed, plain = 1", r"They need (.*?) of the prompts"),
        ),
        (
            *(WEIGHTS, "60 | self-normalised sequence weights"),
            *("prompts needed, plain = 1", r"20 and (\S+ \[.*?\]) at checkpoint 60, w"),
        ),
        (
            *(WEIGHTS, "20 | weights per decision"),
            *("prompts needed, plain = 1", r"weights per decision (0\.\S+ \[.*?\]) an"),
        ),
        (
            *(WEIGHTS, "60 | weights per decision", "prompts needed, plain = 1"),
            r"weights per decision 0\.\S+ \[.*?\] and (.*?)\. Compared",
        ),
        (
            *(WEIGHTS, "20 | self-normalised sequence weights"),
            "prompts needed, per decision = 1",
            r"self-normalised weights need (1.*?) and",
        ),
        (
            *(WEIGHTS, "60 | self-normalised sequence weights"),
            "prompts needed, per decision = 1",
            r"self-normalised weights need 1.*? and (.*?) times",
        ),
        (
            *(WEIGHTS, "20 | self-normalised sequence weights"),
            *("prompts needed, plain = 1", r"- self-normalised weights need (\S+) and"),
        ),
        (
            *(WEIGHTS, "60 | self-normalised sequence weights"),
            *("prompts needed, plain = 1", r"weights need \S+ and (\S+) of the"),
        ),
        (
            *(WEIGHTS, "20 | weights per decision"),
            *("prompts needed, plain = 1", r"weights per decision (\S+) and \S+;"),
        ),
        (
            *(WEIGHTS, "60 | weights per decision"),
            *("prompts needed, plain = 1", r"weights per decision \S+ and (\S+);"),
        ),
        (
            *("enumerated policy", "small step | 1 | self-normalised sequence weights"),
            *("standard deviation, plain = 1", r"deviations are (\S+) and"),
        ),
        (
            *("enumerated policy", "small step | 1 | weights per decision"),
            *("standard deviation, plain = 1", r"deviations are \S+ and (\S+) of"),
        ),
        (
            *("enumerated policy", "large step | 0.0075 | plain sequence weights"),
            *("bias, share of the change", r"4,000 samples show (.*?): the"),
        ),
        (
            *("enumerated policy", "large step | 0.0075 | weights per decision"),
            *("by enumeration", r"by enumeration of (\S+) of plain"),
        ),
        (
            *(ERRORS, "20 | matched, per decision, η × 1 | 256"),
            *("standard deviation", r"error\.\*\* From .*? falls from (\S+) to"),
        ),
        (
            *(ERRORS, "20 | matched, per decision, η × 1 | 4,096"),
            *("standard deviation", r"error\.\*\* From .*? falls from \S+ to (\S+),"),
        ),
        (
            *(ERRORS, "20 | matched, per decision, η × 1 | 4,096"),
            *("mean", r"median error is (\S+) there"),
        ),
        (
            *(ERRORS, "20 | matched, per decision, η × 0.0625 | 4,096"),
            *("mean", r"the error is (\S+) and its deviation"),
        ),
        (
            *(ERRORS, "20 | matched, per decision, η × 0.0625 | 4,096"),
            *("standard deviation", r"and its deviation (\S+):"),
        ),
        (
            *(ERRORS, "60 | matched, per decision, η × 1 | 256"),
            *("standard deviation", r"from 0\.\*\* The .*? falls from (\S+) to"),
        ),
        (
            *(ERRORS, "60 | matched, per decision, η × 1 | 4,096"),
            *("standard deviation", r"from 0\.\*\* The .*? falls from \S+ to (\S+),"),
        ),
        (
            *(ERRORS, "60 | matched, per decision, η × 1 | 4,096"),
            *("mean", r"error with 4,096 prompts is (\S+);"),
        ),
        (
            *(ERRORS, "60 | matched, per decision, η × 0.0625 | 4,096"),
            *("mean", r"the median error is (\S+) with a deviation"),
        ),
        (
            *(ERRORS, "60 | matched, per decision, η × 0.0625 | 4,096"),
            *("standard deviation", r"with a deviation of (\S+)\. Whether"),
        ),
        (
            *("observed Δh", "20, sampled-2", "observed Δh"),
            r"changes entropy by (.*?): ",
        ),
        (
            *("excess kurtosis", "20 | matched, per decision, η × 1 | 256"),
            *("excess kurtosis", r"kurtosis falls from (\S+) at"),
        ),
        (
            *("excess kurtosis", "20 | matched, per decision, η × 1 | 4,096"),
            *("excess kurtosis", r"at 256 prompts to (\S+) at 4,096"),
        ),
        (
            *("excess kurtosis", "60 | matched, per decision, η × 1 | 256"),
            *("excess kurtosis", r"at checkpoint 60 from (\S+) to \S+ \("),
        ),
        (
            *("excess kurtosis", "60 | matched, per decision, η × 1 | 4,096"),
            *("excess kurtosis", r"at checkpoint 60 from \S+ to (\S+) \("),
        ),
        (
            *("excess kurtosis", "20 | original, η × 1 | 4,096"),
            *("excess kurtosis", r"original pairing it is (\S+) and"),
        ),
        (
            *("excess kurtosis", "60 | original, η × 1 | 4,096"),
            *("excess kurtosis", r"original pairing it is \S+ and (\S+) with"),
        ),
        (
            *(SLOPES, "20 | 0.0625 to 0.25"),
            "slope of log Δh on log η, ± its deviation over updates",
            r"updates share it is (.*?) between",
        ),
        (
            *(SLOPES, "20 | 0.0625 to 2"),
            "slope of log Δh on log η, ± its deviation over updates",
            r"over the whole sweep (.*?)\. With",
        ),
        (
            *(SLOPES, "20 | 0.0625 to 2"),
            "mean over updates, each on its own prompts",
            r"own it is (\S+ \[.*?\]) over the sweep: 1 is excluded",
        ),
        (
            *(SLOPES, "60 | 0.0625 to 2"),
            "mean over updates, each on its own prompts",
            r"from 1\.\*\* With prompts of their own it is (.*?) over",
        ),
        (
            *(SLOPES, "60 | 0.0625 to 0.25"),
            "slope of log Δh on log η, ± its deviation over updates",
            r"On shared prompts it is (.*?) between",
        ),
        (
            *(SLOPES, "60 | 0.0625 to 2"),
            "slope of log Δh on log η, ± its deviation over updates",
            r"learning rate and (\S+ ± \S+) over",
        ),
        (
            *(SLOPES, "60 | 0.0625 to 2", "range"),
            r"below 1 for each of the eight \((.*?)\)",
        ),
        (
            *("shared tokens", "20 | same prompt | 0", "mean cosine, adam"),
            r"their mean cosine is (.*?) if they differ",
        ),
        (
            *("shared tokens", "60 | same prompt | 0", "mean cosine, adam"),
            r"one descending\), (.*?) at checkpoint 60",
        ),
        (
            *("shared tokens", "20 | other prompts | 1", "mean cosine, adam"),
            r"common first token and (.*?) with one",
        ),
        (
            *("shared tokens", "60 | other prompts | 1", "mean cosine, adam"),
            r"with one, \S+ and (.*?) at checkpoint 60",
        ),
        (
            *("kernel of", "20 | adapter of rank 8"),
            *("correlation of cosines, same prompt", r"parameters with (.*?) within"),
        ),
        (
            *("kernel of", "20 | adapter of rank 8", "other prompts"),
            r"within a prompt and (.*?) across at",
        ),
        (
            *("kernel of", "20 | adapter of rank 1", "other prompts"),
            r"it is still (.*?) across prompts",
        ),
        (
            *("kernel of", "20 | weights of linear layers", "other prompts"),
            r"layers alone correlate with (.*?) across",
        ),
        (
            *("kernel of", "20 | adapter of rank 64", "other prompts"),
            r"rank 64 with (.*?): the intervals",
        ),
        (
            *(VARIANCE, "20 | as it is | 64", "observed / predicted"),
            r"Observed over predicted is (.*?) with 64",
        ),
        (
            *(VARIANCE, "60 | as it is | 64", "observed / predicted"),
            r"64 responses at checkpoint 20 and (.*?) at checkpoint 60, and",
        ),
        (
            *(VARIANCE, "20 | as it is | 64", "observed"),
            r"as 1/n\*\*: from (.*?) with 64",
        ),
        (
            *(VARIANCE, "20 | as it is | 256", "observed"),
            r"64 responses to (.*?) with 256 at checkpoint 20",
        ),
        (
            *(VARIANCE, "60 | as it is | 64", "observed"),
            r"with 256 at checkpoint 20, from (.*?) to",
        ),
        (
            *(VARIANCE, "60 | as it is | 256", "observed"),
            r"with 256 at checkpoint 20, from .*? to (.*?) at",
        ),
        (
            *(VARIANCE, "60 | clipped | 64", "observed"),
            r"slowly at checkpoint 60\*\*: from (.*?) to",
        ),
        (
            *(VARIANCE, "60 | clipped | 256", "observed"),
            r"slowly at checkpoint 60\*\*: from .*? to (.*?), because",
        ),
        (
            *(VARIANCE, "60 | clipped | 64", "batches clipped"),
            r"because (\S+) of the batches of 64",
        ),
        (
            *(VARIANCE, "60 | clipped | 256", "batches clipped"),
            r"are clipped and (\S+) of those of 256",
        ),
        (
            *(VARIANCE, "20 | clipped | 64", "observed"),
            r"difference is not resolved: (.*?) with",
        ),
        (
            *(VARIANCE, "20 | as it is | 64", "observed"),
            r"with 64 responses, (.*?) without clipping",
        ),
        *(
            (SCALE, f"{step} | {kind} batches", column, pattern)
            for step, kind, column, pattern in (
                ("20", "small", "tr Σ of a prompt", r"tr Σ is (.*?) and"),
                ("60", "small", "tr Σ of a prompt", r"tr Σ is .*? and (.*?) from"),
                ("20", "large", "tr Σ of a prompt", r"from small batches, (.*?) and"),
                ("60", "large", "tr Σ of a prompt", r"small batches, .*? and (.*?) fr"),
                ("20", "large", SCALE, r"the noise scale is (\d.*?) and"),
                ("60", "large", SCALE, r"the noise scale is \d.*? and (.*?) prompts"),
                ("20", "small", SCALE, r"From small batches it is (.*?) and"),
                ("60", "small", SCALE, r"From small batches it is .*? and (.*?), of"),
            )
        ),
        (
            *("feature", "different prompts | and the same token there"),
            *("top 1%, checkpoint-20", r"same place\.\*\* (.*?) of the most"),
        ),
        (
            *("feature", "different prompts | and the same token there"),
            *("top 1%, checkpoint-60", r"At checkpoint 60 it is (.*?), of all"),
        ),
    ],
)
def test_figures_of_the_methods_are_cells_of_their_tables(
    printed, head, row, column, pattern
):
    start = f"checkpoint-{row}" if re.match(r"\d+ \|", row) else row
    heads, _, *rows = one(printed["workbench_methods_tables"], head).split("\n")
    (line,) = [r for r in rows if r.startswith(f"| {start} |")]
    cell = line.strip("| ").split(" | ")[heads.strip("| ").split(" | ").index(column)]
    (figure,) = re.findall(pattern, text(METHODS))
    # With its interval, or alone.
    assert figure in (cell, cell.split(" [")[0])


def test_every_decimal_of_the_methods_is_in_a_table_of_its_section():
    first, *sections = (ROOT / METHODS).read_text(encoding="utf-8").split("\n## ")
    # Levels, a share of pairs, and 0.0075 as it is said.
    settings = {"95%", "1%", "0.75%"}
    decimal = r"\d+\.\d+%?|\d+%"
    assert set(re.findall(decimal, first)) <= settings | set(
        re.findall(decimal, " ".join(sections))
    )
    for section in sections:
        lines = section.split("\n")
        cells = " ".join(x for x in lines if x.startswith("|"))
        prose = " ".join(x for x in lines if not x.startswith("|"))
        unknown = set(re.findall(decimal, prose)) - set(re.findall(decimal, cells))
        assert unknown <= settings, section.split("\n")[0]


def test_no_quotient_of_variances_differs_from_1(printed):
    lines = one(printed["workbench_methods_tables"], VARIANCE).split("\n")[2:]
    for line in lines:
        (low, high) = re.findall(r"\[(\S+), (\S+)\]", line)[0]
        assert float(low) <= 1 <= float(high)


def test_errors_of_predictions_are_resolved_at_checkpoint_20_alone(printed):
    rows = cells(one(printed["workbench_methods_tables"], "observed Δh"))
    assert len(rows) == 16
    for update, row in rows.items():
        change, _, whole, half, _ = (list(map(float, x.split(" ± "))) for x in row)
        if update.startswith("20, "):
            assert whole[0] < -3 * whole[1]
        else:
            assert -2 * whole[1] < whole[0] < 0 < half[0] < 2 * half[1]
            assert change[0] < -5 * change[1]
