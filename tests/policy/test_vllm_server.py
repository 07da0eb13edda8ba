"""The client of a vLLM server, against servers that behave and that do not."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from entrometer.errors import InvalidValue, MissingKey
from entrometer.policy.vllm_server import (
    BadServerAnswer,
    ServerUnavailable,
    VllmServer,
)
from entrometer.runs import response_seeds

EOS = 2
PROMPTS = [[1, 10], [1, 11, 12]]


def good(request: dict) -> tuple[int, bytes]:
    """Answer that a healthy server gives: the prompt's last token, then EOS."""
    tokens = [request["prompt"][-1], EOS]
    choice = {"text": f"t{tokens[0]}", "finish_reason": "stop", "token_ids": tokens}
    choice |= {"logprobs": {"token_logprobs": [-0.5, -0.25]}}
    choice |= {"prompt_token_ids": request["prompt"]}
    # Not in order: vLLM lists choices as they end.
    return 200, answer(*({**choice, "index": i} for i in reversed(range(request["n"]))))


def answer(*choices: dict) -> bytes:
    return json.dumps({"choices": choices}).encode()


def completed(**changes) -> Callable[[dict], tuple[int, bytes]]:
    """A completion of [7, EOS] with some fields changed; `...` takes a field away."""
    choice = {"text": "x", "finish_reason": "stop", "token_ids": [7, EOS], "index": 0}
    choice |= {"logprobs": {"token_logprobs": [-1.0] * 2}} | changes
    body = answer({k: v for k, v in choice.items() if v is not ...})
    return lambda request: (200, body)


@dataclass
class Fake:
    """Answers requests by `complete`, and keeps them."""

    complete: Callable[[dict], tuple[int, bytes]] = good
    models: bytes = b'{"data": [{"id": "served"}]}'
    version: tuple[int, bytes] = (200, b'{"version": "0.31.0"}')
    url: str = ""
    load: tuple[int, bytes] = (200, b"Success: LoRA adapter added successfully.")
    requests: list[dict] = field(default_factory=list)
    loaded: list[dict] = field(default_factory=list)
    ports: set[int] = field(default_factory=set)
    headers: list[dict] = field(default_factory=list)


@contextmanager
def running(fake: Fake) -> Iterator[Fake]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            pages = {"/v1/models": (200, fake.models), "/version": fake.version}
            self.reply(*pages.get(self.path, (404, b"no such page")))

        def do_POST(self):
            length = int(self.headers["Content-Length"])
            request = json.loads(self.rfile.read(length))
            if self.path == "/v1/load_lora_adapter":
                fake.loaded.append(request)
                known = json.loads(fake.models)["data"]
                known.append({"id": request["lora_name"], "parent": "served"})
                fake.models = json.dumps({"data": known}).encode()
                self.reply(*fake.load)
                return
            assert self.path == "/v1/completions"
            fake.ports.add(self.client_address[1])
            fake.requests.append(request)
            fake.headers.append(dict(self.headers))
            self.reply(*fake.complete(request))

        def reply(self, status, body):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            if status == 302:
                self.send_header("Location", f"{fake.url}/v1/models")
            self.end_headers()
            # A client that has seen enough hangs up.
            with suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    fake.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def prompts(count: int) -> list[list[int]]:
    return [[1, 10 + i] for i in range(count)]


def ask(url: str, prompts=PROMPTS, **settings):
    defaults = {"model": "served", "prompt_ids": range(len(prompts)), "seed": 0}
    defaults |= {"max_tokens": 4, "timeout": 5.0, "attempts": 2, "pause": 0.01}
    settings = defaults | settings
    names = [f.name for f in fields(VllmServer)]
    client = {k: settings.pop(k) for k in names if k in settings}
    return VllmServer(url=url, **client).sample(prompts, **settings)


def test_rows_come_back_in_order():
    with running(Fake()) as fake:
        rollouts = ask(fake.url, prompt_ids=[5, 9], responses_per_prompt=3)
    np.testing.assert_array_equal(rollouts.prompt, [5, 5, 5, 9, 9, 9])
    assert [t.tolist() for t in rollouts.prompt_tokens[::3]] == PROMPTS
    assert [t.tolist() for t in rollouts.response_tokens] == [[10, EOS]] * 3 + [
        [12, EOS]
    ] * 3
    assert rollouts.text == ("t10",) * 3 + ("t12",) * 3
    assert np.isnan(rollouts.reward).all()
    assert rollouts.sampler.name == "vllm"
    assert rollouts.sampler.version == "0.31.0"


def test_request_leaves_no_setting_to_the_server():
    with running(Fake()) as fake:
        ask(fake.url, [[1, 10]], prompt_ids=[3], temperature=0.8, eos=[2, 9], seed=6)
    assert fake.requests == [
        {
            "model": "served",
            "prompt": [1, 10],
            "n": 1,
            "max_tokens": 4,
            "temperature": 0.8,
            "top_p": 1.0,
            "top_k": 0,
            "min_p": 0.0,
            "repetition_penalty": 1.0,
            "presence_penalty": 0.0,
            "frequency_penalty": 0.0,
            "watermarking": False,
            "seed": int(response_seeds(6, [3])[0]),
            "stop_token_ids": [2, 9],
            "return_token_ids": True,
            "logprobs": 0,
        }
    ]


def test_responses_to_one_prompt_are_one_request_and_count_its_seed_up():
    with running(Fake()) as fake:
        rollouts = ask(fake.url, responses_per_prompt=4, concurrency=3)
    first = response_seeds(0, range(2), 4)[::4]
    assert sorted(r["seed"] for r in fake.requests) == sorted(first.tolist())
    assert [r["n"] for r in fake.requests] == [4, 4]
    np.testing.assert_array_equal(
        rollouts.seed.reshape(2, 4), first[:, None] + range(4)
    )


def test_log_probs_of_the_engine_are_kept():
    with running(Fake()) as fake:
        rollouts = ask(fake.url)
    np.testing.assert_array_equal(rollouts.engine_logprobs, [[-0.5, -0.25]] * 2)


def test_connections_are_kept_alive():
    with running(Fake()) as fake:
        ask(fake.url, prompts(40), concurrency=2)
    assert len(fake.requests) == 40
    assert len(fake.ports) <= 2


def test_an_adapter_is_loaded_once_by_its_name(tmp_path):
    with running(Fake()) as fake:
        VllmServer(url=fake.url).load_adapter("served", tmp_path)
        assert fake.loaded == []
        VllmServer(url=fake.url).load_adapter("other", tmp_path)
    assert fake.loaded == [{"lora_name": "other", "lora_path": str(tmp_path)}]


def test_a_server_that_loads_no_adapters_is_named(tmp_path):
    with (
        running(Fake(load=(404, b"Not Found"))) as fake,
        pytest.raises(InvalidValue, match="RUNTIME_LORA_UPDATING"),
    ):
        VllmServer(url=fake.url).load_adapter("other", tmp_path)


def test_the_base_model_is_the_served_one():
    models = b'{"data": [{"id": "a", "parent": "b"}, {"id": "b", "parent": null}]}'
    with running(Fake(models=models)) as fake:
        assert VllmServer(url=fake.url).served_model() == "b"
    two = b'{"data": [{"id": "a"}, {"id": "b"}]}'
    with (
        running(Fake(models=two)) as fake,
        pytest.raises(BadServerAnswer, match=r"expected one model.*\['a', 'b'\]"),
    ):
        VllmServer(url=fake.url).served_model()


def test_a_password_in_the_address_is_refused():
    with pytest.raises(InvalidValue, match="VLLM_API_KEY") as told:
        VllmServer(url="http://me:secret@127.0.0.1:8000")
    assert "secret" not in str(told.value)


def test_requests_overlap_up_to_the_limit():
    """Three at once and no more: a fourth would break the barrier's count."""
    together = threading.Barrier(3, timeout=5)
    under_way = []
    most = []

    def slow(request):
        under_way.append(1)
        most.append(len(under_way))
        together.wait()
        under_way.pop()
        return good(request)

    with running(Fake(slow)) as fake:
        ask(fake.url, prompts(12), concurrency=3)
    assert max(most) == 3


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_address_with_or_without_v1(ending):
    with running(Fake()) as fake:
        assert ask(fake.url + ending).count == 2


def test_api_key_is_sent_and_not_kept():
    with running(Fake()) as fake:
        rollouts = ask(fake.url, api_key="secret")
    assert {h["Authorization"] for h in fake.headers} == {"Bearer secret"}
    assert "secret" not in repr(rollouts)


def test_response_at_the_limit_is_whole():
    with running(
        Fake(
            completed(
                token_ids=[7] * 4,
                finish_reason="length",
                logprobs={"token_logprobs": [-1.0] * 4},
            )
        )
    ) as fake:
        np.testing.assert_array_equal(ask(fake.url).length, [4, 4])


@pytest.mark.parametrize("failure", [(500, b"oops"), (429, b"busy"), (200, b'{"cho')])
def test_passing_failure_is_tried_again(failure):
    failures = [failure]
    with running(
        Fake(lambda request: failures.pop() if failures else good(request))
    ) as fake:
        assert ask(fake.url, PROMPTS[:1]).count == 1
    assert len(fake.requests) == 2


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        ((500, b"\x1b[31mout of memory"), r"status 500: '\\x1b\[31mout of memory'"),
        ((200, b'{"choices": [{"te'), "no JSON"),
        ((200, b"[" * 100_000), "no JSON"),
        ((200, b""), "no JSON"),
    ],
)
def test_lasting_failure_stops_after_the_attempts(failure, said):
    with (
        running(Fake(lambda request: failure)) as fake,
        pytest.raises(ServerUnavailable, match=rf"{said}.*3 times.*vllm serve"),
    ):
        ask(fake.url, PROMPTS[:1], attempts=3)
    assert len(fake.requests) == 3


def test_server_that_is_down_is_named():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ServerUnavailable, match=rf"{url}.*check that .vllm serve"):
            ask(url)


def test_silent_server_runs_into_the_timeout():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(ServerUnavailable, match=r"[tT]imed? ?out"):
            ask(url, timeout=0.1)


def test_trickling_server_runs_into_the_timeout():
    """Each byte restarts the socket's own timeout; the request's must still hold."""
    stop = threading.Event()

    def trickle(listener):
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.0 200 OK\r\n\r\n")
            while not stop.wait(0.02):
                connection.sendall(b" ")

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        thread = threading.Thread(target=trickle, args=(listener,))
        thread.start()
        start = time.monotonic()
        try:
            with pytest.raises(ServerUnavailable, match=r"not finished after 0\.3 s"):
                ask(
                    f"http://127.0.0.1:{listener.getsockname()[1]}",
                    timeout=0.3,
                    attempts=1,
                )
        finally:
            stop.set()
            thread.join()
    assert time.monotonic() - start < 4


def test_endless_answer_is_cut_off_at_once():
    with (
        running(Fake(lambda request: (200, b" " * 2**21))) as fake,
        pytest.raises(BadServerAnswer, match="at most 1051648 bytes"),
    ):
        ask(fake.url, PROMPTS[:1])
    assert len(fake.requests) == 1


def test_unknown_model_names_the_nearest():
    with (
        running(Fake()) as fake,
        pytest.raises(MissingKey, match=r"'serve'.*Did you mean 'served'"),
    ):
        ask(fake.url, model="serve")


def test_refused_request_is_not_tried_again():
    with (
        running(Fake(lambda request: (400, b"prompt too long"))) as fake,
        pytest.raises(InvalidValue, match="status 400: 'prompt too long'"),
    ):
        ask(fake.url, PROMPTS[:1])
    assert len(fake.requests) == 1


def test_redirect_is_not_followed():
    """It would turn the request into another one, and send the key along."""
    with (
        running(Fake(lambda request: (302, b""))) as fake,
        pytest.raises(InvalidValue, match="status 302"),
    ):
        ask(fake.url, PROMPTS[:1])


@pytest.mark.parametrize("url", ["file:///etc/passwd", "127.0.0.1:8000", "ftp://h/"])
def test_address_of_another_kind_is_refused(url):
    with pytest.raises(InvalidValue, match="with http:// or https://"):
        ask(url)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"token_ids": ...}, "return_token_ids"),
        ({"token_ids": None}, "return_token_ids"),
        ({"token_ids": []}, r"1 to 4 token ids.*got \[\]"),
        ({"token_ids": [7] * 5}, "1 to 4 token ids"),
        ({"token_ids": [7, -1]}, "1 to 4 token ids"),
        ({"token_ids": [7, 2**31]}, "1 to 4 token ids"),
        ({"token_ids": [7, 1.5]}, "1 to 4 token ids"),
        ({"token_ids": [7, True]}, "1 to 4 token ids"),
        ({"token_ids": "7"}, "1 to 4 token ids"),
        ({"text": 7}, "1 to 4 token ids"),
        ({"text": ...}, "expected a completion"),
        ({"finish_reason": "abort"}, "with finish_reason 'abort'"),
        ({"finish_reason": "length"}, "larger --max-model-len"),
        ({"prompt_token_ids": [10]}, "without prompt truncation"),
        ({"index": ...}, "expected a completion"),
        ({"logprobs": ...}, "log-prob of each of 2 tokens"),
        ({"logprobs": {"token_logprobs": [-1.0]}}, "log-prob of each of 2 tokens"),
        ({"logprobs": {"token_logprobs": [-1.0, None]}}, "log-prob of each"),
        ({"logprobs": {"token_logprobs": [-1.0, 3.0]}}, "log-prob of each"),
    ],
)
def test_unusable_answer_is_refused(changes, said):
    with (
        running(Fake(completed(**changes))) as fake,
        pytest.raises(BadServerAnswer, match=said),
    ):
        ask(fake.url, PROMPTS[:1])


@pytest.mark.parametrize("body", [b"[]", b"{}", b"7", b"null"])
def test_answer_of_another_shape_is_refused(body):
    with (
        running(Fake(lambda request: (200, body))) as fake,
        pytest.raises(BadServerAnswer, match="expected a completion"),
    ):
        ask(fake.url, PROMPTS[:1])


@pytest.mark.parametrize("body", [b"[]", b'{"data": 7}', b'{"data": [1]}'])
def test_list_of_models_of_another_shape_is_refused(body):
    with (
        running(Fake(models=body)) as fake,
        pytest.raises(BadServerAnswer, match="list of models"),
    ):
        ask(fake.url)


@pytest.mark.parametrize("version", [(404, b"?"), (200, b"[]"), (200, b"{}")])
def test_server_that_tells_no_version_still_serves(version):
    with running(Fake(version=version)) as fake:
        assert ask(fake.url).sampler.version == "unknown"


def test_first_failure_stops_the_rest():
    with (
        running(Fake(lambda request: (400, b"no"))) as fake,
        pytest.raises(InvalidValue),
    ):
        ask(fake.url, prompts(200), concurrency=1)
    assert len(fake.requests) < 20
