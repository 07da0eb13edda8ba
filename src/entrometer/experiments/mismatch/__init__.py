"""What sampling with an engine in other numerics does: `entrometer mismatch`."""

from collections.abc import Sequence

from entrometer.experiments.experiment import Experiment, Steps, register
from entrometer.experiments.mismatch.config import MismatchConfig
from entrometer.report.kinds import PageParts
from entrometer.runs.tables.mismatch import MismatchTables
from entrometer.text import interval_of, table


def _steps() -> Steps:
    # Imported when called, so that --help does not load torch.
    from entrometer.experiments.mismatch.collect import collect
    from entrometer.experiments.mismatch.plan import follow_up, plan
    from entrometer.experiments.mismatch.summary import summarize

    return Steps(plan, collect, summarize, follow_up)


def _page() -> PageParts[MismatchTables]:
    # Imported on use: figures import matplotlib.
    from entrometer.report.mismatch import PARTS

    return PARTS


def _text(tables: MismatchTables) -> Sequence[str]:
    texts = []
    for engine in tables.engines:
        at = (engine.checkpoint, engine.update)
        rows = [
            [
                *(d.by if d.by != "all" else "", d.name, str(d.tokens)),
                *(f"{x:.2g}" for x in (d.size, d.size_99, d.largest)),
                interval_of(d, "entropy"),
                interval_of(d, "reward"),
            ]
            for d in tables.distances
            if (d.checkpoint, d.update) == at
        ]
        heads = ["", "tokens of", "number", "mean", "99%", "largest"]
        heads += ["on entropy", "on reward"]
        texts.append(
            f"{', '.join(at)}: distance of engine and trainer, |log m| in nats, and "
            "the effect of weighing tokens by m\n"
            + table(heads, rows, label_columns=2)
            + "\nm: the trainer's probability over the engine's. Effects on the step "
            f"at the learning rate {engine.eta:.3g}, to first order, with 95% "
            "intervals:\nnats per token and reward per response."
        )
    return texts


MISMATCH = register(
    Experiment(
        name="mismatch",
        help="Measure how far the engine that sampled is from the trainer, and what "
        "correcting for it would do.",
        config=MismatchConfig,
        tables=MismatchTables,
        steps=_steps,
        text=_text,
        page=_page,
    )
)
