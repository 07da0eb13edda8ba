import pytest
from sphinx.testing.util import SphinxTestApp
from test_role import problem_with


@pytest.fixture
def project(tmp_path):
    """A project with one test, and one function outside its tests."""
    (tmp_path / "tests" / "room").mkdir(parents=True)
    (tmp_path / "tests" / "room" / "test_a.py").write_text(
        "def helper(): ...\ndef test_one(): ...\n"
    )
    (tmp_path / "outside.py").write_text("def test_one(): ...\n")
    return tmp_path


def test_existing_test_has_no_problem(project):
    assert problem_with("tests/room/test_a.py::test_one", project) is None


@pytest.mark.parametrize(
    ("reference", "problem"),
    [
        ("tests/room/test_a.py", "expected tests/"),
        ("tests/room/test_b.py::test_one", "no file 'tests/room/test_b.py'"),
        ("tests/room::test_one", "no file 'tests/room'"),
        ("tests/../outside.py::test_one", "no file"),
        ("tests/room/test_a.py::test_two", "no test 'test_two'"),
        ("tests/room/test_a.py::helper", "no test 'helper'"),
        ("tests/room/test_a.py::", "no test ''"),
    ],
)
def test_reference_to_nothing_is_a_problem(project, reference, problem):
    assert problem_with(reference, project).startswith(problem)


@pytest.mark.parametrize(
    ("name", "warning"),
    [("test_one", ""), ("test_two", "no test 'test_two' in tests/room/test_a.py")],
)
def test_page_shows_the_address_and_warns_if_it_is_wrong(project, name, warning):
    docs = project / "docs"
    docs.mkdir()
    (docs / "conf.py").write_text("extensions = ['myst_parser', 'test_role']\n")
    (docs / "index.md").write_text(
        f"# Page\n\n{{test}}`tests/room/test_a.py::{name}`\n"
    )
    app = SphinxTestApp("html", srcdir=docs)
    try:
        app.build()
        warnings = app.warning.getvalue()
        assert warning in warnings
        assert bool(warnings) == bool(warning)
        assert (
            f"tests/room/test_a.py::{name}" in (app.outdir / "index.html").read_text()
        )
    finally:
        app.cleanup()
