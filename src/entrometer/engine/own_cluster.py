"""A Ray cluster for one command: on the loopback interface, behind a token.

Without a token, anyone who reaches a port of a Ray cluster can run code on it.
Which interfaces Ray listens on and whether it asks for a token depend on its release
and on the user's environment. For a cluster that Entrometer starts, both are set here.
"""

import logging
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray
from ray import _raylet
from ray._private import ray_constants


@contextmanager
def own_cluster() -> Iterator[None]:
    """Start a cluster on this machine with its own token; stop it afterwards."""
    settings = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(32),
        # Ray turns 127.0.0.1 into an address that other machines reach, except where
        # this switch for Windows and macOS is off. Then all of its processes listen on
        # the loopback interface alone.
        ray_constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0",
    }
    before = {name: os.environ.get(name) for name in settings}
    # Ray copied the switch into this constant when it was imported.
    clusters = ray_constants.ENABLE_RAY_CLUSTER
    try:
        os.environ.update(settings)
        ray_constants.ENABLE_RAY_CLUSTER = False
        _read_environment()
        # "local" starts a cluster even if RAY_ADDRESS names another. No dashboard: no
        # browser has the token.
        ray.init(
            address="local",
            include_dashboard=False,
            log_to_driver=False,
            logging_level=logging.ERROR,
        )
        yield
    finally:
        ray.shutdown()
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
        ray_constants.ENABLE_RAY_CLUSTER = clusters
        _read_environment()


def _read_environment() -> None:
    # Ray read the environment when it was imported, so it must read it again. In this
    # order: without a token, a thread that still runs in the mode that needs
    # one would end the process.
    compiled: Any = _raylet
    compiled.Config.initialize("")
    compiled.AuthenticationTokenLoader.instance().reset_cache()
