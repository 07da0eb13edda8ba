import pytest
from starlette.testclient import TestClient

from benchmarks.report.synthetic import KINDS
from entrometer.view.app import make_app
from entrometer.view.index import Index
from entrometer.view.pages import Pages

TOKEN = "token"
HOST = "127.0.0.1:8000"


@pytest.fixture
def root(tmp_path):
    """An empty directory for runs."""
    path = tmp_path / "runs"
    path.mkdir()
    return path


@pytest.fixture
def index(root):
    return Index(root, KINDS)


@pytest.fixture
def pages(index, tmp_path):
    return Pages(index.root, KINDS, tmp_path / "cache")


@pytest.fixture
def client(index, pages):
    """A client of the application, with the usual host and token."""
    app = make_app(index, pages, token=TOKEN, hosts=[HOST])
    return TestClient(app, base_url=f"http://{HOST}/{TOKEN}/", follow_redirects=False)
