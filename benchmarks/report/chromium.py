"""A page in headless Chromium: what it ran, what it asked for, what it says."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SETTLE = 1.0
"""Seconds after loading in which a script may still run or ask."""


class ChromiumMissing(RuntimeError):
    """There is no browser to open a page in."""


@dataclass(frozen=True)
class Opened:
    """A page that was loaded and left alone for a moment."""

    sources: list[str]
    """Scripts that were compiled: elements, event handlers and URLs alike."""
    messages: list[str]
    """What was written to the console, or asked in a dialog."""
    log: list[str]
    """What the browser itself logged, such as a refused request."""
    requests: list[str]
    """URLs that were asked for, other than the page's own and data."""
    navigations: int
    """Pages that were come to, 1 being the file itself."""
    answer: Any
    """What the expression came to, evaluated when all else was counted."""
    seconds: float
    """From asking for the page until it was loaded."""

    @property
    def scripts(self) -> int:
        """How many scripts were compiled."""
        return len(self.sources)


def find_chromium() -> str:
    """Path of the browser."""
    for name in NAMES:
        if path := shutil.which(name):
            return path
    raise ChromiumMissing(
        f"expected one of {', '.join(NAMES)} on the path, found none; install it "
        "(Debian: apt-get install chromium)"
    )


def open_page(
    page: Path | str, expression: str, *, seconds: float = 60, width: int | None = None
) -> Opened:
    """Load a file or an address in a fresh browser, count what it does, then ask it.

    `width` is that of the window, in pixels.
    """
    with tempfile.TemporaryDirectory() as profile, Browser(profile, seconds) as pipe:
        return visit(pipe, page, expression, width=width)


def visit(
    pipe: "Browser",
    page: Path | str,
    expression: str,
    *,
    width: int | None = None,
    dark: bool = False,
    settle: float = SETTLE,
) -> Opened:
    """Load a page in a new tab of a browser; see `open_page`."""
    pipe.open_tab()
    for domain in ("Page", "Runtime", "Network", "Debugger", "Log"):
        pipe.ask(f"{domain}.enable")
    if width is not None:
        pipe.ask("Emulation.setDeviceMetricsOverride", screen(width))
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    pipe.ask("Emulation.setEmulatedMedia", {"features": [scheme]})
    pipe.events.clear()
    url = address(page)
    start = time.monotonic()
    pipe.ask("Page.navigate", {"url": url})
    pipe.wait_for("Page.loadEventFired")
    loaded = time.monotonic() - start
    pipe.listen(settle)
    # Only what the page did by itself: the question is a script too.
    events = list(pipe.events)
    sources = [
        pipe.ask("Debugger.getScriptSource", {"scriptId": e["params"]["scriptId"]})
        for e in events
        if e["method"] == "Debugger.scriptParsed"
    ]
    question = {"expression": expression, "returnByValue": True}
    answer = pipe.ask("Runtime.evaluate", question)
    if "exceptionDetails" in answer:
        raise RuntimeError(f"the page was asked in vain: {answer}")
    return Opened(
        sources=[s["scriptSource"] for s in sources],
        messages=[_message(e) for e in events if e["method"] in _SPEAKS],
        log=[
            json.dumps(e["params"]["entry"])
            for e in events
            if e["method"] == "Log.entryAdded"
        ],
        requests=[u for e in events if (u := _request(e, url))],
        navigations=sum(_is_navigation(e) for e in events),
        answer=answer["result"]["value"],
        seconds=loaded,
    )


def address(page: Path | str) -> str:
    """Return the URL of a file; an address as it is."""
    return page if isinstance(page, str) else page.resolve().as_uri()


def screen(width: int) -> dict[str, Any]:
    """Return the settings of a screen of this width in pixels."""
    return {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}


_SPEAKS = (
    "Runtime.consoleAPICalled",
    "Runtime.exceptionThrown",
    "Page.javascriptDialogOpening",
)


def _message(event: dict[str, Any]) -> str:
    return json.dumps(event["params"].get("args", event["params"]))


def _request(event: dict[str, Any], own: str) -> str | None:
    if event["method"] != "Network.requestWillBeSent":
        return None
    url: str = event["params"]["request"]["url"]
    return None if url == own or url.startswith("data:") else url


def _is_navigation(event: dict[str, Any]) -> bool:
    frame = event["params"].get("frame", {})
    return event["method"] == "Page.frameNavigated" and "parentId" not in frame


# Chromium reads its commands from descriptor 3 and writes to 4. What came as these
# numbers is moved out of the way first.
_LAUNCH = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(end), fcntl.F_DUPFD, 10) for end in sys.argv[1:3]]
os.dup2(ends[0], 3)
os.dup2(ends[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """The DevTools protocol over two pipes; messages end with a NUL."""

    def __init__(self, profile: str, seconds: float) -> None:
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        self._deadline = time.monotonic() + seconds
        self._sent = 0
        self._rest = b""
        self._answers: dict[int, dict[str, Any]] = {}
        their_read, self._write = os.pipe()
        self._read, their_write = os.pipe()
        ends = (str(their_read), str(their_write))
        self._process = subprocess.Popen(
            [sys.executable, "-c", _LAUNCH, *ends, find_chromium(), *_flags(profile)],
            pass_fds=(their_read, their_write),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(their_read)
        os.close(their_write)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        # Closed pipes end the browser; what is left of it after that is ended.
        os.close(self._write)
        os.close(self._read)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a command and wait for what it returns."""
        self._sent += 1
        body = {"id": self._sent, "method": method, "params": params or {}}
        if self.session:
            body["sessionId"] = self.session
        os.write(self._write, json.dumps(body).encode() + b"\0")
        while self._sent not in self._answers:
            self._receive(self._deadline)
        answer = self._answers.pop(self._sent)
        if "error" in answer:
            raise RuntimeError(f"Chromium refused {method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def open_tab(self) -> None:
        """Send what follows to a new page, and close the last one."""
        if self.session:
            self.ask("Page.close")
            self.session = None
        target = self.ask("Target.createTarget", {"url": "about:blank"})["targetId"]
        flat = {"targetId": target, "flatten": True}
        self.session = self.ask("Target.attachToTarget", flat)["sessionId"]

    def wait_for(self, method: str) -> None:
        """Wait until an event of this name has come."""
        while not any(event["method"] == method for event in self.events):
            self._receive(self._deadline)

    def listen(self, seconds: float) -> None:
        """Take in whatever comes for a while."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self._receive(end, silence_is_fine=True)

    def _receive(self, deadline: float, *, silence_is_fine: bool = False) -> None:
        left = max(0.0, deadline - time.monotonic())
        ready, _, _ = select.select([self._read], [], [], left)
        chunk = os.read(self._read, 1 << 20) if ready else b""
        if not chunk:
            if ready or not silence_is_fine:
                raise RuntimeError("Chromium fell silent or ended; run it by hand")
            return
        *messages, self._rest = (self._rest + chunk).split(b"\0")
        for raw in messages:
            message = json.loads(raw)
            if "id" in message:
                self._answers[message["id"]] = message
            else:
                self.events.append(message)


def _flags(profile: str) -> Iterator[str]:
    yield from (
        "--headless",
        "--disable-gpu",
        "--no-first-run",
        "--remote-debugging-pipe",
    )
    # The browser's own traffic is no request of the page.
    yield from ("--disable-background-networking", "--disable-component-update")
    if os.geteuid() == 0:
        # Chromium has no sandbox for root, and says so by not starting.
        yield "--no-sandbox"
