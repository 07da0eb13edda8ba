"""The server of `entrometer view` in a process of its own, and requests to it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True)
class Answer:
    """What the server sent; status 0 if it closed the connection without a word."""

    status: int
    body: str
    seconds: float


@dataclass(frozen=True)
class Server:
    """A running server."""

    url: str
    started: float
    """Seconds from the command to its address."""

    @property
    def port(self) -> int:
        return int(urlsplit(self.url).port or 0)

    @property
    def token(self) -> str:
        return urlsplit(self.url).path.strip("/")

    def ask(
        self,
        path: str = "",
        *,
        method: str = "GET",
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        """Send a request below the token; a path with `/` in front replaces it.

        `headers` replace the usual ones, of which `Host` is one.
        """
        target = path if path.startswith("/") else f"/{self.token}/{path}"
        start = time.perf_counter()
        connection = HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.putrequest(method, target, skip_host=True)
            for name, value in (
                {"Host": f"127.0.0.1:{self.port}"} | dict(headers or {})
            ).items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            body = answer.read().decode(errors="replace")
            return Answer(answer.status, body, time.perf_counter() - start)
        except (HTTPException, ConnectionError):
            return Answer(0, "", time.perf_counter() - start)
        finally:
            connection.close()

    def drawn(self, path: str, *, seconds: float = 300) -> Answer:
        """Return a page once its figures are drawn, and how long that took."""
        start = time.perf_counter()
        while (answer := self.ask(path)).status == 200:
            took = time.perf_counter() - start
            if "<h1>The page is being drawn" not in answer.body:
                return Answer(200, answer.body, took)
            if took > seconds:
                break
            time.sleep(0.05)
        return answer


@contextmanager
def serving(root: Path, cache: Path) -> Iterator[Server]:
    """Run `entrometer view root`, with its drawn pages in `cache`, until the end."""
    command = [sys.executable, "-m", "entrometer.cli", "view", str(root), "--json"]
    environment = os.environ | {"ENTROMETER_CACHE": str(cache)}
    start = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        try:
            line = child.stdout.readline()
            yield Server(json.loads(line)["url"], time.perf_counter() - start)
        finally:
            child.terminate()
