"""Compare a user's own loss, or those of a framework, with ours token by token."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from entrometer.cli.flags import Flag, parse
from entrometer.errors import InvalidValue
from entrometer.text import plain, print_json, table

if TYPE_CHECKING:
    from entrometer.conformance.own_comparison import Comparison
    from entrometer.conformance.rows import Row
    from entrometer.conformance.scenarios import Scenario


@dataclass(frozen=True, kw_only=True)
class Verify:
    """Compare the token weights of another implementation of a loss with ours.

    Exits with 1 if they differ.
    """

    losses: Annotated[
        tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="LOSS...")
    ] = ()
    """Losses of ours, such as `kl-cov:rho=0.02`; by default every one."""

    against: str | None = None
    """Your loss, as `file.py:function` or `module:function`. It gets the tables that
    its parameters name: S, H, S_old, A, mask, group, S_engine, S_ref, length_limit."""

    framework: str | None = None
    """Framework whose losses are called: trl, verl, openrlhf, skyrl, torchtitan,
    prime-rl, nemo-rl or slime."""

    site: Path | None = None
    """Folder that the framework is installed or unpacked in, if it is not in this
    environment."""

    micro_batch: int = 4
    """Responses of a micro-batch, in the batches that are split; 0 for none."""

    seeds: int = 2
    """Number of seeds of the batches."""

    any_normaliser: Flag = False
    """Count losses as equal that differ only in their normaliser."""

    json: Flag = False
    """Print one JSON object instead of text."""


def run(arguments: Sequence[str]) -> int:
    """Run the verb; return the exit code."""
    command = parse(Verify, arguments, verb="verify")
    if (command.against is None) == (command.framework is None):
        raise InvalidValue(
            "expected either --against file.py:function or --framework NAME, got "
            f"{'both' if command.against else 'neither'}; name one of them"
        )
    if command.seeds < 1 or command.micro_batch < 0:
        raise InvalidValue(
            "expected at least one seed and a micro-batch of at least 0, got "
            f"{command.seeds} and {command.micro_batch}; correct them"
        )
    # Imported late: `--help` must not load torch.
    from entrometer.conformance.scenarios import scenarios

    batches = scenarios(command.seeds, command.micro_batch)
    if command.framework is not None:
        return _framework(command, command.framework, batches)
    return _own(command, command.against or "", batches)


def _framework(command: Verify, name: str, batches: "list[Scenario]") -> int:
    from entrometer.conformance.rows import LACKS, compared_losses, rows

    chosen = compared_losses(command.losses)
    found = rows(name, command.site, chosen, batches)
    compared = [row for row in found if row.verdict != LACKS]
    if command.json:
        print_json({"rows": [asdict(row) for row in found]})
    else:
        print_rows(compared)
        lacking = [row.loss for row in found if row.verdict == LACKS]
        if lacking:
            print(plain(f"{name} has none of: {', '.join(lacking)}"))
    return int(any(_is_different(command, row.verdict) for row in compared))


def print_rows(found: "Sequence[Row]") -> None:
    """Print a table of rows, and below it why those that differ do."""
    heads = ("loss", "framework", "α differs", "γ differs", "verdict")
    cells = [
        [
            r.loss,
            f"{r.framework} {r.version}",
            f"{r.alpha:.1e}",
            f"{r.gamma:.1e}",
            r.verdict,
        ]
        for r in found
    ]
    print(table(heads, cells, label_columns=2))
    for row in found:
        if row.reason:
            print(plain(f"{row.framework} {row.loss}: {row.reason} ({row.rest:.1e})"))


def _own(command: Verify, text: str, batches: "list[Scenario]") -> int:
    from entrometer.conformance.own_comparison import compare
    from entrometer.conformance.own_function import loss_function
    from entrometer.interventions import intervention

    if len(command.losses) != 1:
        raise InvalidValue(
            f"expected one loss of ours to compare with {text}, got "
            f"{len(command.losses)}; write `entrometer verify dr-grpo --against {text}`"
        )
    own = intervention(command.losses[0])
    comparison = compare(own, loss_function(text), batches)
    if command.json:
        print_json(asdict(comparison))
    else:
        _print_comparison(comparison, text)
    return int(_is_different(command, comparison.verdict))


def _print_comparison(found: "Comparison", text: str) -> None:
    print(
        plain(
            f"{found.loss} and {text}: {found.verdict}. α differs by {found.alpha:.1e} "
            f"of the largest, γ by {found.gamma:.1e}, on {len(found.batches)} batches."
        )
    )
    if found.reason:
        print(plain(f"why: {found.reason} (leaves {found.rest:.1e})"))
    if found.tokens:
        print(plain(f"tokens that differ most, {found.worst}:"))
        heads = ("response", "token", "S", "S_old", "A", "r", "α ours", "α theirs")
        rows = [
            [
                str(t.response),
                str(t.token),
                f"{t.S:.4f}",
                f"{t.S_old:.4f}",
                f"{t.A:+.3f}",
                f"{t.ratio:.4f}",
                *(f"{x:+.3e}" for x in (t.alpha, t.their_alpha)),
                *(f"{x:+.3e}" for x in (t.gamma, t.their_gamma)),
            ]
            for t in found.tokens
        ]
        print(table((*heads, "γ ours", "γ theirs"), rows))


def _is_different(command: Verify, verdict: str) -> bool:
    same = ("agrees", "other normaliser") if command.any_normaliser else ("agrees",)
    return verdict not in same
