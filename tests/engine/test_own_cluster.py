"""A cluster that is started for one command is closed to everybody else."""

import os
import subprocess
import sys

import pytest

ray = pytest.importorskip("ray")
psutil = pytest.importorskip("psutil")

from entrometer.engine.own_cluster import own_cluster  # noqa: E402

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore:.*:FutureWarning"
)

LOOPBACK = {"127.0.0.1", "::1", "::ffff:127.0.0.1"}

ASK = """
import sys
from ray._raylet import GcsClient
print(GcsClient(address=sys.argv[1]).get_all_node_info())
"""


@pytest.fixture(scope="module")
def address():
    with pytest.MonkeyPatch.context() as patched:
        # What the user has set does not open it.
        patched.setenv("RAY_AUTH_MODE", "disabled")
        with own_cluster():
            yield ray.get_runtime_context().gcs_address
        assert os.environ["RAY_AUTH_MODE"] == "disabled"


def test_every_port_of_an_own_cluster_is_on_the_loopback_interface(address):
    @ray.remote(num_cpus=0)
    def work():
        return os.environ["RAY_AUTH_MODE"]

    assert ray.get(work.remote()) == "token"
    own = psutil.Process()
    listening = {
        (process.name(), connection.laddr.ip)
        for process in [own, *own.children(recursive=True)]
        for connection in process.net_connections("inet")
        if connection.status == psutil.CONN_LISTEN
    }
    assert {name for name, _ in listening} >= {"gcs_server", "raylet"}
    assert {ip for _, ip in listening} <= LOOPBACK


@pytest.mark.parametrize("token", [None, "0" * 64, "own"])
def test_a_client_without_the_token_is_refused(address, token):
    own = os.environ["RAY_AUTH_TOKEN"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}
    environment["RAY_AUTH_MODE"] = "disabled" if token is None else "token"
    if token is not None:
        environment["RAY_AUTH_TOKEN"] = own if token == "own" else token
    asked = subprocess.run(
        [sys.executable, "-c", ASK, address],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if token == "own":
        assert asked.returncode == 0, asked.stderr
    else:
        assert asked.returncode != 0
        assert "InvalidAuthToken" in asked.stderr
