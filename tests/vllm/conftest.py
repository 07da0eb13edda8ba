"""A vLLM server of the suite's own, on the processor."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.serving import serving
from entrometer.policy.tiny import save_tiny


@pytest.fixture(scope="session")
def model_directory(tmp_path_factory) -> Path:
    """What is served: a tiny model whose generation config would bend the policy."""
    if given := os.environ.get("VLLM_MODEL"):
        return Path(given)
    directory = save_tiny(tmp_path_factory.mktemp("model"))
    path = directory / "generation_config.json"
    config = json.loads(path.read_text())
    config |= {"do_sample": True, "temperature": 0.3, "top_k": 3, "top_p": 0.5}
    config |= {"min_p": 0.1, "repetition_penalty": 5.0}
    path.write_text(json.dumps(config))
    return directory


@pytest.fixture(scope="session")
def server(model_directory, tmp_path_factory) -> Iterator[str]:
    """Address of a server of that model under the name `served`."""
    log = tmp_path_factory.mktemp("server") / "log.txt"
    with serving(model_directory, log, "--served-model-name", "served") as url:
        yield url
