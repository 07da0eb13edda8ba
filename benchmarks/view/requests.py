"""Requests that must not be served."""

from collections.abc import Iterator

from benchmarks.view.serving import Answer, Server


def hostile_requests(server: Server, run: str) -> Iterator[tuple[str, Answer]]:
    """Yield a name and the answer of each request; `run` is the id of a run."""
    own, token = f"127.0.0.1:{server.port}", server.token
    page = f"runs?run={run}"
    hosts = {
        "foreign host": "entrometer.invalid",
        "foreign host, own port": f"entrometer.invalid:{server.port}",
        "rebound subdomain": f"{own}.entrometer.invalid",
        "another port": f"127.0.0.1:{server.port + 1}",
        "no port": "127.0.0.1",
        "user before the host": f"x@{own}",
        "empty host": "",
    }
    for name, host in hosts.items():
        for path in ("", page):
            yield name, server.ask(path, headers={"Host": host})
    origins = ("http://entrometer.invalid", "null", "file://", f"https://{own}")
    for origin in (*origins, "http://127.0.0.1:1", f"http://{own}.invalid"):
        yield f"origin {origin}", server.ask(page, headers={"Origin": origin})
    for site in ("cross-site", "same-site"):
        for mode, kind in (
            ("no-cors", "image"),
            ("cors", "empty"),
            ("navigate", "iframe"),
        ):
            fetched = {"Sec-Fetch-Site": site, "Sec-Fetch-Mode": mode}
            headers = fetched | {"Sec-Fetch-Dest": kind}
            yield f"{site} {kind}", server.ask(page, headers=headers)
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD", "TRACE"):
        yield method, server.ask(page, method=method)
    for path in (
        "/",
        f"/{page}",
        f"/{token[:-1]}/{page}",
        f"/{token}x/{page}",
        f"/{token.swapcase()}/{page}",
        f"//{token}/{page}",
        f"/?token={token}",
        f"/x/{token}/",
        f"/%00{token}/",
        f"/{'x' * 5000}/",
    ):
        yield f"token {path[:20]}", server.ask(path)
    climb = "../" * 12 + "etc/passwd"
    for path in (
        climb,
        climb.replace("/", "%2f"),
        climb.replace(".", "%2e"),
        climb.replace("/", "\\"),
        "/etc/passwd",
        f"//etc/passwd?{token}",
        f"runs/{run}",
        f"runs/../{climb}",
        "training-0000/config.json",
        "report.html",
        "favicon.ico",
        *(f"runs?run={name}" for name in (climb, "/etc/passwd", "training-0000", "")),
        f"runs?run={run}%00",
        f"runs?run={run}&run={climb}",
        f"newest?run={climb}",
        "runs",
        "newest",
    ):
        yield f"path {path[:30]}", server.ask(path)
