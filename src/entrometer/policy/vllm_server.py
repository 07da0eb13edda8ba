"""Draw responses from a vLLM server, which returns token ids over HTTP."""

# Axes: N responses.

import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, OpenerDirector, Request, build_opener

import numpy as np
from jaxtyping import Int

from entrometer.errors import EntrometerError, InvalidValue, MissingKey, nearest_name
from entrometer.runs.rollouts import Rollouts, Sampler, seeds_for, unscored

_CHECK = "check that it is the OpenAI-compatible server of vLLM"


class ServerUnavailable(EntrometerError, ConnectionError):
    """A server cannot be reached, or fails at every attempt."""


class BadServerAnswer(EntrometerError, ValueError):
    """A server's answer contains no usable response."""


def sample_from_server(
    url: str,
    prompts: Sequence[Sequence[int]],
    *,
    model: str,
    prompt_ids: Sequence[int],
    responses_per_prompt: int = 1,
    temperature: float = 1.0,
    max_tokens: int,
    seed: int | Int[np.ndarray, " N"],
    eos: Sequence[int] = (),
    concurrency: int = 64,
    timeout: float = 600.0,
    attempts: int = 4,
    pause: float = 1.0,
    api_key: str | None = None,
) -> Rollouts:
    """Draw responses from the plain softmax of a served model.

    One request per response, with its own seed. Responses repeat exactly only if the
    server's arithmetic does, which in vLLM depends on the batch. Prompts and seeds are
    those of `sample`.

    `eos` are tokens that end a response besides the server's EOS; with `eos_tokens` the
    server stops where `sample` does. At most `concurrency` requests are in flight. Each
    may take `timeout` seconds and is tried `attempts` times, with a `pause` in seconds
    that doubles. `api_key` is sent as a bearer token, and never stored.
    """
    seeds = seeds_for(seed, prompts, prompt_ids, responses_per_prompt)
    server = _Server(
        url.rstrip("/").removesuffix("/v1"), timeout, attempts, pause, api_key
    )
    _check_model(server, model)
    sampler = Sampler(
        name="vllm",
        temperature=temperature,
        max_tokens=max_tokens,
        model=model,
        version=_version(server),
    )
    rows = [[int(t) for t in p] for p in prompts for _ in range(responses_per_prompt)]

    def draw(row: int) -> tuple[list[int], str]:
        return _draw(server, rows[row], int(seeds[row]), sampler, list(eos))

    with ThreadPoolExecutor(max_workers=concurrency) as pool:
        # The first failure is raised here, and `map` then cancels pending requests.
        drawn = list(pool.map(draw, range(len(rows))))
    responses, texts = zip(*drawn, strict=True)
    return unscored(prompt_ids, rows, responses, seeds, texts, sampler)


def _draw(
    server: "_Server", prompt: list[int], seed: int, sampler: Sampler, eos: list[int]
) -> tuple[list[int], str]:
    # Complete, so that the server takes nothing from the model's generation config: a
    # top-k, a penalty or a watermark would make it another policy.
    request = {
        "model": sampler.model,
        "prompt": prompt,
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
    }
    # Generous for ids, log-prob fields and escaped text, and far from filling memory.
    limit = 2**20 + 512 * (len(prompt) + sampler.max_tokens)
    answer = server.ask("/v1/completions", request, limit)
    try:
        choice = answer["choices"][0]
        text, reason = choice["text"], choice["finish_reason"]
    except (KeyError, IndexError, TypeError) as error:
        raise BadServerAnswer(
            f"expected a completion from {server.url}, got {_shown(answer)}; {_CHECK}"
        ) from error
    tokens, echoed = choice.get("token_ids"), choice.get("prompt_token_ids")
    if tokens is None:
        raise BadServerAnswer(
            f"expected token_ids in the answer of {server.url}, got none; serve with a "
            "vLLM that knows return_token_ids (0.22 and later do)"
        )
    if echoed is not None and echoed != prompt:
        raise BadServerAnswer(
            f"expected the server to continue the {len(prompt)} prompt tokens it was "
            f"sent, got {_shown(echoed)}; serve without prompt truncation"
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
    return tokens, text


def _check_model(server: "_Server", model: str) -> None:
    answer = server.ask("/v1/models", None, 2**20)
    try:
        names = [str(entry["id"]) for entry in answer["data"]]
    except (KeyError, TypeError) as error:
        raise BadServerAnswer(
            f"expected a list of models from {server.url}, got {_shown(answer)}; "
            f"{_CHECK}"
        ) from error
    if model not in names:
        raise MissingKey(
            f"expected a model that {server.url} serves, of {_shown(names)}, got "
            f"{model!r}; name one of them.{nearest_name(model, names)}"
        )


def _version(server: "_Server") -> str:
    try:
        return str(server.ask("/version", None, 2**16)["version"])[:64]
    except (BadServerAnswer, InvalidValue, KeyError, TypeError):
        # Only vLLM's own server has this address; others may serve the model as well.
        return "unknown"


class _NoRedirect(HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Refuse: a redirected POST loses its body and may send the key elsewhere."""


@dataclass(frozen=True)
class _Server:
    url: str
    timeout: float
    attempts: int
    pause: float
    api_key: str | None = field(repr=False)
    opener: OpenerDirector = field(default_factory=lambda: build_opener(_NoRedirect))

    def __post_init__(self) -> None:
        if urlsplit(self.url).scheme not in ("http", "https"):
            raise InvalidValue(
                f"expected an address such as http://127.0.0.1:8000, got {self.url!r}; "
                "give the root of the server"
            )
        if self.attempts < 1:
            raise InvalidValue(
                f"expected at least one attempt, got {self.attempts} attempts; give 1"
            )

    def ask(self, path: str, request: dict[str, Any] | None, limit: int) -> Any:
        """Return the JSON answer, of at most `limit` bytes; retry passing failures."""
        for attempt in range(self.attempts):
            if attempt:
                time.sleep(self.pause * 2 ** (attempt - 1))
            try:
                content = self._fetch(path, request, limit)
            except HTTPError as error:
                last = f"status {error.code}: {_complaint(error)}"
                if error.code != 429 and error.code < 500:
                    raise InvalidValue(
                        f"expected {self.url}{path} to accept the request, got {last}; "
                        "change what it complains about"
                    ) from error
            except (OSError, HTTPException) as error:
                last = f"{type(error).__name__}: {_shown(str(error))}"
            else:
                try:
                    return json.loads(content)
                except (ValueError, RecursionError) as error:
                    last = f"an answer that is no JSON ({type(error).__name__})"
        raise ServerUnavailable(
            f"expected an answer from {self.url}{path}, got {last}, {self.attempts} "
            "times; check that `vllm serve` runs there and has finished loading"
        )

    def _fetch(self, path: str, request: dict[str, Any] | None, limit: int) -> bytes:
        headers = {"Content-Type": "application/json"}
        if self.api_key is not None:
            headers["Authorization"] = f"Bearer {self.api_key}"
        body = None if request is None else json.dumps(request).encode()
        deadline = time.monotonic() + self.timeout
        content = bytearray()
        address = Request(self.url + path, body, headers)
        with self.opener.open(address, timeout=self.timeout) as answer:
            # In chunks: the socket's timeout restarts with each byte that arrives.
            while piece := answer.read1(2**16):
                content += piece
                if len(content) > limit:
                    raise BadServerAnswer(
                        f"expected at most {limit} bytes from {self.url}{path}, got "
                        f"more; {_CHECK}"
                    )
                if time.monotonic() > deadline:
                    raise TimeoutError(f"not finished after {self.timeout} s")
        return bytes(content)


def _complaint(error: HTTPError) -> str:
    try:
        with error:
            return _shown(error.read(2**12).decode("utf-8", "replace"))
    except OSError:
        return "(nothing more)"


def _shown(value: object) -> str:
    # repr escapes control characters: the server's text may reach a terminal.
    text = repr(value)
    return text if len(text) <= 200 else f"{text[:200]}…"
