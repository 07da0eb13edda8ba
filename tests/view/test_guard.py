"""What the server refuses."""

import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest

import entrometer
from benchmarks.view.made import measured
from tests.view.conftest import HOST, TOKEN


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"host": "entrometer.invalid"}, 403),
        ({"host": f"{HOST}.invalid"}, 403),
        ({"host": "127.0.0.1:8001"}, 403),
        ({"host": ""}, 403),
        ({"origin": f"http://{HOST}"}, 200),
        ({"origin": "http://entrometer.invalid"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:8001"}, 403),
        ({"sec-fetch-site": "none"}, 200),
        ({"sec-fetch-site": "same-origin"}, 200),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, 403),
        # A link that the user follows opens a tab, which the other page cannot read.
        (
            {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "navigate",
                "sec-fetch-dest": "document",
            },
            200,
        ),
        (
            {
                "sec-fetch-site": "cross-site",
                "sec-fetch-mode": "navigate",
                "sec-fetch-dest": "iframe",
            },
            403,
        ),
    ],
)
def test_only_requests_of_the_user_are_served(client, headers, status):
    answer = client.get("", headers=headers)
    assert answer.status_code == status
    assert (status == 200) == answer.text.startswith("<!doctype html>")
    if status == 403:
        assert answer.text.startswith("expected ")
        assert ", got " in answer.text
        assert "; open " in answer.text


@pytest.mark.parametrize(
    "path",
    ["/", "/x/", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/", f"//{TOKEN}/", f"/x/{TOKEN}/"],
)
def test_no_other_token_is_served(client, path):
    answer = client.get(f"http://{HOST}{path}")
    assert answer.status_code == 403
    assert "with the token of this server" in answer.text


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]
)
def test_only_get_is_served(client, method):
    assert client.request(method, "").status_code == 405


@pytest.mark.parametrize(
    "path",
    [
        "runs",
        "newest",
        "runs?run=run",
        "runs?run=../run",
        "runs?run=%2e%2e/run",
        "runs/run",
        "run/summary.json",
        "summary.json",
        "report.html",
    ],
)
def test_a_run_is_reached_by_its_id_only(root, client, path):
    measured(root / "run")
    client.get("")
    answer = client.get(path)
    assert answer.status_code == 404
    assert answer.text.startswith("expected ")
    assert "; " in answer.text


def test_an_address_without_its_slash_gets_one(client):
    answer = client.get(f"http://{HOST}/{TOKEN}")
    assert answer.status_code == 307
    assert answer.headers["location"] == f"/{TOKEN}/"


@pytest.mark.parametrize("path", ["runs/", "newest/"])
def test_another_address_is_not_redirected(client, path):
    answer = client.get(path)
    assert answer.status_code == 404
    assert "location" not in answer.headers


def _allowed(script):
    content = (Path(entrometer.__file__).parent / script).read_bytes()
    return f"'sha256-{b64encode(sha256(content).digest()).decode()}'"


def test_every_answer_has_the_protecting_headers(client):
    for path in ("", "absent", "/", f"http://{HOST}/{TOKEN}"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        scripts = re.findall(r"script-src ([^;]*);", policy)[0].split()
        assert scripts == [
            _allowed("view/poll.js"),
            _allowed("report/influence/heat.js"),
        ]
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
