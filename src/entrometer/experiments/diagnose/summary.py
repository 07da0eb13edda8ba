"""The answer of a diagnosis in words: entropy, tokens, remedies, and what is unsure."""

from typing import Any

from entrometer.experiments.compare import summary as compare
from entrometer.experiments.diagnose.config import DiagnoseConfig
from entrometer.experiments.influence import summary as influence
from entrometer.experiments.measure import summary as measure
from entrometer.experiments.next_batches.summary import next_batch_warnings
from entrometer.experiments.result_fields import (
    signal_sentences,
    signal_warnings,
    without_signal,
)
from entrometer.runs.tables.diagnose import DiagnoseTables


def summarize(config: DiagnoseConfig, tables: DiagnoseTables) -> dict[str, Any]:
    """Return the title, sentences and warnings of a diagnosis, as plain text."""
    return {
        "title": "What drains entropy, and what would help",
        "sentences": [
            *without_signal(tables.signal),
            *compare.advised(tables),
            measure.finding(tables),
            *signal_sentences(tables.signal),
            *influence.findings(tables),
            *compare.findings(tables),
            _extent(config),
        ],
        "warnings": [
            *signal_warnings(tables.signal),
            *measure.warnings(tables),
            *influence.warnings(config, tables),
            *compare.warnings(tables),
            *next_batch_warnings(
                tables.expected, tables.batches, compare.names(tables), config.batches
            ),
        ],
    }


def _extent(config: DiagnoseConfig) -> str:
    text = (
        "What is said of `recorded` or `sampled-N` is about that batch: another one at "
        "the same checkpoint may drain otherwise and favour another remedy."
    )
    if config.quick:
        text += (
            " Quick: one batch, so no verdict on the next ones; remedies are predicted "
            "and not tried, and whether the learning rate is in the linear range is "
            "not measured; leave out --quick for all three."
        )
    return text
