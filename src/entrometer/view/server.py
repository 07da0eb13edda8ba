"""A server on this machine only, for as long as the command runs."""

import secrets
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from entrometer.errors import InvalidValue
from entrometer.report.read import Kinds
from entrometer.runs.locations import cache_directory
from entrometer.view.app import make_app
from entrometer.view.index import Index
from entrometer.view.pages import Pages

HOST = "127.0.0.1"


def serve(
    directory: Path, kinds: Kinds, *, port: int, started: Callable[[str, int], None]
) -> None:
    """Serve the runs in a directory until the process is interrupted.

    Args:
        directory: Where the runs are.
        kinds: Kinds of runs by the name that manifests give.
        port: Port to listen at; 0 for a free one.
        started: Called once with the address, and the number of runs.
    """
    index = Index(directory, kinds)
    count = len(index.runs())
    pages = Pages(index.root, kinds, cache_directory() / "view-pages")
    with _listening(port) as listener:
        port = listener.getsockname()[1]
        token = secrets.token_urlsafe(24)
        hosts = [f"{HOST}:{port}", f"localhost:{port}"]
        config = uvicorn.Config(
            make_app(index, pages, token=token, hosts=hosts),
            lifespan="off",
            ws="none",
            # A page's address holds the token, which no log should keep. An error of
            # the server is a page in words.
            log_level="critical",
            access_log=False,
            # No proxy speaks for the user.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        started(f"http://{HOST}:{port}/{token}/", count)
        uvicorn.Server(config).run(sockets=[listener])


def _listening(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # The port of a server that has just ended can be used again at once.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((HOST, port))
        listener.listen(128)
    except (OSError, OverflowError) as error:
        listener.close()
        raise InvalidValue(
            f"expected a free port, got {port} ({error}); choose another with --port, "
            "or leave it out"
        ) from error
    return listener
