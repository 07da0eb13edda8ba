"""What the server refuses before it looks at a run."""

import secrets
from collections.abc import Collection, Iterable

from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from entrometer.view.html import POLICY

HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-DNS-Prefetch-Control": "off",
}
"""Headers of every answer."""


class Guard:
    """Passes on a request only if it is the user's own: GET, host, origin and token.

    The token is the first part of the path, `/TOKEN/…`. It is not in a cookie: a
    browser sends cookies to every port of this machine, so another local server would
    get it.
    """

    def __init__(self, app: ASGIApp, token: str, hosts: Collection[str]) -> None:
        """`hosts` are the names and ports that the server goes by."""
        self._app, self._token, self._hosts = app, token, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it in words."""
        if scope["type"] != "http":
            raise RuntimeError(f"expected HTTP requests only, got {scope['type']}")
        why = self._refused(scope)
        if why is not None:
            status, words = why
            answer = PlainTextResponse(words + "\n", status, HEADERS)
            await answer(scope, receive, send)
            return
        path = scope["path"].removeprefix(f"/{self._token}")
        if not path:
            # Addresses in the list are relative to the slash.
            add_slash = RedirectResponse(f"/{self._token}/", headers=HEADERS)
            await add_slash(scope, receive, send)
            return
        await self._app({**scope, "path": path, "raw_path": None}, receive, send)

    def _refused(self, scope: Scope) -> tuple[int, str] | None:
        """Return status and words for a request that is refused, else None."""
        if scope["method"] != "GET":
            return 405, (
                f"expected GET, got {scope['method']}; this server only shows runs"
            )
        headers: Iterable[tuple[bytes, bytes]] = scope["headers"]
        values: dict[str, list[str]] = {}
        for name, value in headers:
            values.setdefault(name.decode("latin-1").lower(), []).append(
                value.decode("latin-1")
            )
        # Another host name is a foreign page whose name was made to mean this machine.
        if not self._is_own(values.get("host", []), "{}"):
            return 403, (
                f"expected the host {' or '.join(sorted(self._hosts))}, got another; "
                "open the address that `entrometer view` printed"
            )
        if "origin" in values and not self._is_own(values["origin"], "http://{}"):
            return 403, (
                "expected a request of this server's own pages, got one of another "
                "page; open the address that `entrometer view` printed"
            )
        if _is_embedded_elsewhere(values):
            return 403, (
                "expected a request of this server's own pages, got one that another "
                "page makes; open the address in a tab of its own"
            )
        # Compared in constant time: the time of a refusal must not tell a beginning.
        token = scope["path"].split("/")[1:2]
        given = token[0].encode() if token else b""
        if not secrets.compare_digest(given, self._token.encode()):
            return 403, (
                "expected an address with the token of this server, got another; copy "
                "the address that `entrometer view` printed"
            )
        return None

    def _is_own(self, values: list[str], form: str) -> bool:
        return len(values) == 1 and values[0] in {form.format(h) for h in self._hosts}


def _is_embedded_elsewhere(values: dict[str, list[str]]) -> bool:
    """Return whether another site's page made the request, not by opening a tab."""
    site = values.get("sec-fetch-site", ["none"])
    opened = values.get("sec-fetch-mode") == ["navigate"] and values.get(
        "sec-fetch-dest"
    ) == ["document"]
    return not opened and site not in (["none"], ["same-origin"])
