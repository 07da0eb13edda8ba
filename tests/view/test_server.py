"""The verb itself, with a server of its own."""

import json
import re
import socket
import subprocess
import sys

import pytest

from benchmarks.view.made import measured, training
from benchmarks.view.requests import hostile_requests
from benchmarks.view.serving import serving
from entrometer.cli import main


def test_the_server_serves_its_list_and_nothing_to_others(root, tmp_path):
    measured(root / "one")
    training(root / "two", steps=4)
    with serving(root, tmp_path / "cache") as server:
        assert server.url.startswith("http://127.0.0.1:")
        assert len(server.token) >= 32
        answer = server.ask()
        assert answer.status == 200
        assert "2 of 2 runs" in answer.body
        identity = re.findall(r'name="run" value="([0-9a-f]{16})"', answer.body)[0]
        assert server.ask(f"runs?run={identity}").status == 200
        assert server.ask(headers={"Host": f"localhost:{server.port}"}).status == 200
        served = [n for n, a in hostile_requests(server, identity) if a.status == 200]
        assert served == []
        # Bound to this address only: no other of this machine's answers.
        with socket.socket() as other, pytest.raises(ConnectionRefusedError):
            other.connect(("127.0.0.2", server.port))


def test_two_servers_have_different_tokens(root, tmp_path):
    with (
        serving(root, tmp_path / "cache") as one,
        serving(root, tmp_path / "cache") as two,
    ):
        assert one.token != two.token
        assert one.ask(f"/{two.token}/").status == 403


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "expected one directory that contains runs, got 0"),
        (["a", "b"], "expected one directory that contains runs, got 2"),
        (["absent"], "expected a directory that contains runs, got no such directory"),
        ([".", "--port", "99999"], "expected a free port, got 99999"),
        ([".", "--prot", "1"], "Did you mean '--port'?"),
    ],
)
def test_mistakes_end_in_one_line(arguments, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["view", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_port_in_use_is_refused(root, capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert main(["view", str(root), "--port", str(port)]) == 2
    assert f"expected a free port, got {port}" in capsys.readouterr().err


def test_control_c_ends_it_without_a_word(root, monkeypatch, capsys):
    import uvicorn

    def interrupted(self, sockets):
        raise KeyboardInterrupt

    monkeypatch.setattr(uvicorn.Server, "run", interrupted)
    assert main(["view", str(root), "--json"]) == 0
    out, error = capsys.readouterr()
    assert json.loads(out)["runs"] == 0
    assert error == ""


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_a_missing_package_names_the_extra(root, missing):
    code = f"""
import sys
sys.modules[{missing!r}] = None
from entrometer.cli import main
sys.exit(main(["view", {str(root)!r}]))
"""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert f"needs {missing}, which is not installed" in done.stderr
    assert "pip install 'entrometer[view]'" in done.stderr


def test_neither_help_nor_the_package_imports_the_server():
    code = """
import sys, entrometer
from entrometer.cli import main
main(["--help"])
try: main(["view", "--help"])
except SystemExit: pass
assert not {"starlette", "uvicorn", "torch", "matplotlib"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
