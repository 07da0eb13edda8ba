import pytest

from benchmarks.report.synthetic import measurement, write
from tests.report.toy import SMALL, SUMMARY, sample


@pytest.fixture
def new_run(tmp_path):
    """Writes a finished measurement and returns its directory."""

    def make(made=None, *, name="run", config=None, **summary):
        made = made or measurement(SMALL, [sample("a response")])
        return write(tmp_path / name, made, SUMMARY | summary, config or {"seed": 0})

    return make
