"""Draw responses from a vLLM server: token ids with the server's log-probs."""

# Axes: N responses.

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np
from jaxtyping import Int

from entrometer.errors import (
    EntrometerError,
    InvalidValue,
    MissingKey,
    nearest_name,
    require_address,
)
from entrometer.runs.rollouts import Rollouts, Sampler, unscored
from entrometer.runs.seeds import seeds_for

_CHECK = "check that it is the OpenAI-compatible server of vLLM"


class ServerUnavailable(EntrometerError, ConnectionError):
    """A server cannot be reached, or fails at every attempt."""


class BadServerAnswer(EntrometerError, ValueError):
    """A server's answer cannot be used: for example, it has no valid response."""


class _Completion(NamedTuple):
    tokens: list[int]
    text: str
    logprobs: list[float]


@dataclass(frozen=True, kw_only=True)
class VllmServer:
    """Address of a vLLM server, and how to send it requests.

    A request may take `timeout` seconds and is tried `attempts` times, with a `pause`
    in seconds that doubles; at most `concurrency` are in flight. `api_key` is sent as a
    bearer token, and never stored.
    """

    url: str
    concurrency: int = 64
    timeout: float = 600.0
    attempts: int = 4
    pause: float = 1.0
    api_key: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Raise for an address that cannot be used."""
        require_address(self.url)

    def sample(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        model: str,
        prompt_ids: Sequence[int],
        responses_per_prompt: int = 1,
        temperature: float = 1.0,
        max_tokens: int,
        seed: int | Int[np.ndarray, " N"],
        eos: Sequence[int] = (),
    ) -> Rollouts:
        """Draw responses from the plain softmax of a served model.

        Prompts and seeds are those of `entrometer.policy.sample`. Consecutive responses
        to equal prompts are one request, whose seed is that of the first; vLLM adds 1
        for each further one, and those seeds are in the table. Responses repeat exactly
        only if the server's arithmetic does, which in vLLM depends on the batch.

        `eos` are tokens that end a response besides the server's EOS; with `eos_tokens`
        the server stops where `sample` does.
        """
        seeds = seeds_for(seed, prompts, prompt_ids, responses_per_prompt)
        with _Connection(self) as server:
            _require_served(model, server.models(), self.url)
            sampler = Sampler(
                name="vllm",
                temperature=temperature,
                max_tokens=max_tokens,
                model=model,
                version=server.version(),
            )
            rows = [
                tuple(map(int, p)) for p in prompts for _ in range(responses_per_prompt)
            ]
            groups = [list(g) for _, g in groupby(range(len(rows)), rows.__getitem__)]
            # vLLM takes 64-bit seeds, and adds the number of the response to it.
            firsts = [int(seeds[g[0]]) % (2**63 - len(rows)) for g in groups]

            def draw(i: int) -> list[_Completion]:
                prompt, count = rows[groups[i][0]], len(groups[i])
                return server.complete(prompt, count, firsts[i], sampler, list(eos))

            with ThreadPoolExecutor(max_workers=self.concurrency) as pool:
                # The first failure is raised here; `map` then cancels pending requests.
                drawn = [c for part in pool.map(draw, range(len(groups))) for c in part]
        taken = [
            first + i
            for first, g in zip(firsts, groups, strict=True)
            for i in range(len(g))
        ]
        tokens, texts, logprobs = zip(*drawn, strict=True)
        rollouts = unscored(prompt_ids, rows, tokens, np.array(taken), texts, sampler)
        return replace(rollouts, engine_logprobs=tuple(map(np.array, logprobs)))

    def served_model(self) -> str:
        """Return the name of the one base model that is served."""
        with _Connection(self) as server:
            names = [name for name, parent in server.models().items() if not parent]
        if len(names) != 1:
            raise BadServerAnswer(
                f"expected one model at {self.url}, got {_shown(names)}; serve the "
                "checkpoint's model alone"
            )
        return names[0]

    def load_adapter(self, name: str, directory: Path) -> None:
        """Serve a LoRA adapter under a name, unless it is served already.

        The server reads the directory itself, so it must see the same path.
        """
        with _Connection(self) as server:
            if name in server.models():
                return
            request = {"lora_name": name, "lora_path": str(directory.absolute())}
            try:
                server.ask("/v1/load_lora_adapter", request, 2**16, as_json=False)
            except InvalidValue as error:
                raise InvalidValue(
                    f"expected {self.url} to load the adapter {directory} ({error}); "
                    "serve the base model where the directory can be read, with "
                    "--enable-lora, --max-lora-rank of at least the adapter's rank "
                    "and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True"
                ) from error


class _Connection:
    """A client with kept-alive connections, closed at the end of a `with` block."""

    def __init__(self, server: VllmServer) -> None:
        self.server = server
        self.url = server.url.rstrip("/").removesuffix("/v1")
        # Not compressed: a small answer could otherwise unpack to gigabytes.
        headers = {"Accept-Encoding": "identity"}
        if server.api_key is not None:
            headers["Authorization"] = f"Bearer {server.api_key}"
        # No redirects, which is httpx's default: a redirected POST loses its body and
        # may send the key elsewhere.
        self.client = httpx.Client(
            headers=headers,
            timeout=server.timeout,
            limits=httpx.Limits(max_connections=server.concurrency),
        )

    def __enter__(self) -> "_Connection":
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def models(self) -> dict[str, str | None]:
        """Return the served names; an adapter's with the name of its base model."""
        answer = self.ask("/v1/models", None, 2**22)
        try:
            return {str(entry["id"]): entry.get("parent") for entry in answer["data"]}
        except (KeyError, TypeError, AttributeError) as error:
            raise BadServerAnswer(
                f"expected a list of models from {self.url}, got {_shown(answer)}; "
                f"{_CHECK}"
            ) from error

    def version(self) -> str:
        """Return the version of vLLM."""
        try:
            return str(self.ask("/version", None, 2**16)["version"])[:64]
        except (BadServerAnswer, InvalidValue, KeyError, TypeError):
            # Only vLLM's own server has this address; others may serve the model too.
            return "unknown"

    def complete(
        self,
        prompt: Sequence[int],
        count: int,
        seed: int,
        sampler: Sampler,
        eos: list[int],
    ) -> list[_Completion]:
        """Return `count` responses to a prompt."""
        # Complete, so that the server takes nothing from the model's generation config:
        # a top-k, a penalty or a watermark would make it another policy.
        request = {
            "model": sampler.model,
            "prompt": list(prompt),
            "n": count,
            "max_tokens": sampler.max_tokens,
            "temperature": sampler.temperature,
            "top_p": sampler.top_p,
            "top_k": sampler.top_k,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "watermarking": False,
            "seed": seed,
            "stop_token_ids": eos,
            "return_token_ids": True,
            # 0 asks for the log-prob of the sampled token alone.
            "logprobs": 0,
        }
        # Generous for ids, log-prob fields and escaped text, far from filling memory.
        limit = 2**20 + 512 * count * (len(prompt) + sampler.max_tokens)
        answer = self.ask("/v1/completions", request, limit)
        try:
            choices = sorted(answer["choices"], key=lambda choice: choice["index"])
            drawn = [self._completion(c, prompt, sampler) for c in choices]
        except (AttributeError, KeyError, TypeError) as error:
            raise BadServerAnswer(
                f"expected a completion from {self.url}, got {_shown(answer)}; {_CHECK}"
            ) from error
        if len(drawn) != count:
            raise BadServerAnswer(
                f"expected {count} responses from {self.url}, "
                f"got {len(drawn)}; {_CHECK}"
            )
        return drawn

    def _completion(
        self, choice: dict[str, Any], prompt: Sequence[int], sampler: Sampler
    ) -> _Completion:
        text, reason = choice["text"], choice["finish_reason"]
        tokens, echoed = choice.get("token_ids"), choice.get("prompt_token_ids")
        if tokens is None:
            raise BadServerAnswer(
                f"expected token_ids in the answer of {self.url}, got none; serve with "
                "a vLLM that knows return_token_ids (0.22 and later do)"
            )
        if echoed is not None and echoed != list(prompt):
            raise BadServerAnswer(
                f"expected the server to continue the {len(prompt)} prompt tokens it "
                f"was sent, got {_shown(echoed)}; serve without prompt truncation"
            )
        valid = (
            isinstance(text, str)
            and isinstance(tokens, list)
            and 1 <= len(tokens) <= sampler.max_tokens
            and all(type(t) is int and 0 <= t < 2**31 for t in tokens)
        )
        full = reason == "length" and valid and len(tokens) == sampler.max_tokens
        if not valid or not (reason == "stop" or full):
            raise BadServerAnswer(
                f"expected 1 to {sampler.max_tokens} token ids ending in EOS or at the "
                f"limit, got {_shown(tokens)} with finish_reason {_shown(reason)}; "
                "serve with --generation-config vllm and a larger --max-model-len"
            )
        listed = choice.get("logprobs")
        logprobs = listed.get("token_logprobs") if isinstance(listed, dict) else None
        # Rounding may lift a log-prob of almost 0 above it.
        if (
            not isinstance(logprobs, list)
            or len(logprobs) != len(tokens)
            or not all(type(x) in (int, float) and -1e4 < x < 1e-3 for x in logprobs)
        ):
            raise BadServerAnswer(
                f"expected a log-prob of each of {len(tokens)} tokens from {self.url}, "
                f"got {_shown(logprobs)}; serve with --max-logprobs of at least 1"
            )
        return _Completion(tokens, str(text), [float(x) for x in logprobs])

    def ask(
        self,
        path: str,
        request: dict[str, Any] | None,
        limit: int,
        *,
        as_json: bool = True,
    ) -> Any:
        """Return the answer, of at most `limit` bytes; retry passing failures."""
        attempts = max(1, self.server.attempts)
        for attempt in range(attempts):
            if attempt:
                time.sleep(self.server.pause * 2 ** (attempt - 1))
            try:
                status, content = self._fetch(path, request, limit)
            except (httpx.HTTPError, TimeoutError) as error:
                last = f"{type(error).__name__}: {_shown(str(error))}"
                continue
            if status != 200:
                complaint = content[: 2**12].decode("utf-8", "replace")
                last = f"status {status}: {_shown(complaint)}"
                if status != 429 and status < 500:
                    raise InvalidValue(
                        f"expected {self.url}{path} to accept the request, got {last}; "
                        "change what it complains about"
                    )
                continue
            if not as_json:
                return content
            try:
                return json.loads(content)
            except (ValueError, RecursionError) as error:
                last = f"an answer that is no JSON ({type(error).__name__})"
        raise ServerUnavailable(
            f"expected an answer from {self.url}{path}, got {last}, {attempts} times; "
            "check that `vllm serve` runs there and has finished loading"
        )

    def _fetch(
        self, path: str, request: dict[str, Any] | None, limit: int
    ) -> tuple[int, bytes]:
        timeout = self.server.timeout
        deadline = time.monotonic() + timeout
        content = bytearray()
        method = "GET" if request is None else "POST"
        with self.client.stream(method, self.url + path, json=request) as answer:
            # In pieces: httpx's own timeout restarts with each byte that arrives.
            for piece in answer.iter_raw():
                content += piece
                if len(content) > limit:
                    raise BadServerAnswer(
                        f"expected at most {limit} bytes from {self.url}{path}, got "
                        f"more; {_CHECK}"
                    )
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not finished after {timeout} s")
        return answer.status_code, bytes(content)


def _require_served(model: str, served: dict[str, str | None], url: str) -> None:
    if model not in served:
        names = list(served)
        raise MissingKey(
            f"expected a model that {url} serves, of {_shown(names)}, got {model!r}; "
            f"name one of them.{nearest_name(model, names)}"
        )


def _shown(value: object) -> str:
    # repr escapes control characters: the server's text may reach a terminal.
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
