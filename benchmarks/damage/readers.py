"""Every file that an experiment, an evaluation, a replay or a report reads."""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

from benchmarks.damage.damages import DAMAGES, damaged
from benchmarks.toy_training import CONFIG
from entrometer.cli import main
from entrometer.policy.tiny import save_tiny
from entrometer.runs import logged_metrics, seal, update_path, write_metrics
from entrometer.runs.content import file_sha256

FEW = {
    "measure": "--prompts 8 --shard 8 --etas 0.01 --curvature-prompts 8 "
    "--variance-prompts 8 --synthetic-batches 10 --synthetic-size 4 --batches 1",
    "influence": "--prompts 8 --shard 8 --folds 4 --past 1 --batches 1",
    "kernel": "--prompts 8 --shard 8 --kernel-prompts 3 --kernel-responses 2",
    "compare": "--prompts 8 --shard 8 --folds 4 --interventions dr-grpo --batches 2",
}
AT = CONFIG.steps - CONFIG.save_every
"""The checkpoint that is measured: the next one seals the update that follows."""


@dataclass(frozen=True)
class Outcome:
    """What a command did with a damaged file."""

    command: str
    file: str
    damage: str
    kind: str
    """`refused` or `stated`, by name; `same` if the results are, to the bit, because
    the file was made again or the damage reached no number; else `silent`."""

    def __str__(self) -> str:
        return f"{self.command}: {self.file} {self.damage}"


@dataclass(frozen=True)
class Reader:
    """A command, and the files that it reads."""

    name: str
    arguments: Sequence[str]
    files: Sequence[Path]
    made: Path | None = None
    """Directory of what it writes, which is taken away again."""

    restored: Path | None = None
    """Run that it goes on with, which is put back after each damage."""


def read_everything(training: Path, folder: Path) -> list[Outcome]:
    """Damage each file in each way, and run what reads it."""
    world = _World(training, folder)
    return [
        _outcome(reader, path, damage, folder)
        for reader in world.readers()
        for path in reader.files
        for damage in DAMAGES
    ]


class _World:
    """A training, its evaluation, a sealed base, and a finished measurement."""

    def __init__(self, training: Path, folder: Path) -> None:
        self.training, self.folder = training, folder
        self.checkpoint = training / f"checkpoint-{AT}"
        self.base = save_tiny(folder / "base")
        seal(self.base)
        _succeed("eval", str(training), *_EVALUATED)
        self.measured, self.new = folder / "measured", folder / "new"
        _succeed(*self._experiment("measure"), "--run", str(self.measured))
        # Drawn anew, and not sealed.
        (self.measured / "report.html").unlink(missing_ok=True)
        self.kept = self._kept(folder / "kept")

    def readers(self) -> Iterator[Reader]:
        training = self.training
        checkpoint = _files(self.checkpoint)
        after = training / f"checkpoint-{CONFIG.steps}" / "manifest.json"
        beside = [training / "config.json", training / "manifest.json"]
        batch = update_path(training, AT + 1)
        inputs = [*checkpoint, *beside, batch, after, *_files(self.base)]
        for verb in FEW:
            past = [update_path(training, AT)] if verb == "influence" else []
            # What is only stated lets the experiment run to its end; once is enough.
            files = inputs if verb == "measure" else [*checkpoint[:-1], batch, *past]
            files = [p for p in files if verb == "measure" or p.name != "manifest.json"]
            arguments = (*self._experiment(verb), "--run", str(self.new))
            yield Reader(verb, arguments, files, made=self.new)
        (evaluation,) = (training / "evaluation").iterdir()
        newest = _files(training / f"checkpoint-{CONFIG.steps}")
        tables = [evaluation / "table.parquet", evaluation / "manifest.json"]
        measured, out = str(self.measured), ["--out", str(self.folder / "page.html")]
        yield Reader("report", ("report", measured, *out), _files(self.measured))
        yield Reader(
            "report of a training",
            ("report", str(training), *out),
            [*beside, *newest, *tables],
        )
        yield Reader(
            "report of a kept training",
            ("report", str(self.kept), *out),
            _files(self.kept),
        )
        replay = ("replay", measured, "--run", str(self.new))
        yield Reader("replay", replay, _files(self.measured, "manifest.json"), self.new)
        yield Reader(
            "replay of an evaluation",
            ("replay", str(evaluation), "--run", str(self.new)),
            _files(evaluation, "manifest.json"),
            self.new,
        )
        again = ("eval", str(training), *_EVALUATED)
        yield Reader("eval", again, checkpoint, restored=evaluation)
        shards = sorted(evaluation.glob("checkpoint-*/*.parquet"))
        yield Reader("eval again", again, shards, restored=evaluation)
        yield Reader(
            "measure --resume",
            ("measure", "--run", measured, "--resume", "--no-report"),
            [
                self.measured / "config.json",
                *sorted(p for p in (self.measured / "passes").iterdir()),
            ],
            restored=self.measured,
        )

    def _experiment(self, verb: str) -> tuple[str, ...]:
        base = ("--policy", str(self.base), "--no-report")
        return (verb, str(self.checkpoint), *FEW[verb].split(), *base)

    def _kept(self, kept: Path) -> Path:
        """A training of which the tables alone are kept, as studies keep theirs."""
        kept.mkdir()
        shutil.copy(self.training / "config.json", kept)
        write_metrics(kept / "metrics.parquet", logged_metrics(self.training))
        (table,) = self.training.glob("evaluation/*/table.parquet")
        shutil.copy(table, kept / "evaluation.parquet")
        seal(kept, about={"kind": "training"})
        return kept


_EVALUATED = ("--problems", "2", "--responses", "2", "--ks", "1")


def _outcome(reader: Reader, path: Path, damage: str, folder: Path) -> Outcome:
    before = _tables(reader.restored)
    if reader.restored is not None:
        shutil.copytree(reader.restored, folder / "aside")
    with damaged(path, damage):
        code, said = _run(*reader.arguments)
    kind = "silent"
    if path.name in said or ("nsealed" in said and path.name == "manifest.json"):
        kind = "refused" if code else "stated"
    elif code == 0 and before and _tables(reader.restored) == before:
        kind = "same"
    if reader.restored is not None:
        shutil.rmtree(reader.restored)
        (folder / "aside").rename(reader.restored)
    if reader.made is not None:
        shutil.rmtree(reader.made, ignore_errors=True)
    return Outcome(reader.name, str(path.relative_to(folder)), damage, kind)


def _tables(run: Path | None) -> dict[str, str]:
    """Hashes of the results of a run or an evaluation."""
    if run is None:
        return {}
    files = [*run.glob("results/*.parquet"), *run.glob("table.parquet")]
    return {path.name: file_sha256(path) for path in files}


def _files(directory: Path, *without: str) -> list[Path]:
    """Files of a directory, but for those of passes and of an evaluation."""
    return [
        path
        for path in sorted(directory.rglob("*"))
        if path.is_file()
        and path.name not in (".lock", *without)
        and "passes" not in path.relative_to(directory).parts
    ]


def _run(*arguments: str) -> tuple[int, str]:
    out = StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        code = main(arguments)
    return code, out.getvalue()


def _succeed(*arguments: str) -> None:
    code, said = _run(*arguments)
    assert code == 0, said
