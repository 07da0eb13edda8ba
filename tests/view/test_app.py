"""The list and the pages, as the application answers."""

import os
import re
import time
from pathlib import Path

import pytest

import entrometer
from benchmarks.report.hostile import ACTIVE
from benchmarks.report.synthetic import KINDS
from benchmarks.view.made import (
    PLANTED,
    SECRET,
    checkpoint,
    hostile,
    leaving,
    measured,
    training,
)
from entrometer.runs import hold
from entrometer.view.pages import Pages, _code


def ids(client):
    row = r'value="([0-9a-f]{16})" aria-label="Choose ([^"]*)"'
    return {name: identity for identity, name in re.findall(row, client.get("").text)}


def drawn(client, *identities):
    query = "&".join(f"run={identity}" for identity in identities)
    for _ in range(1200):
        answer = client.get(f"runs?{query}")
        if "being drawn" not in answer.text:
            return answer
        time.sleep(0.1)
    raise AssertionError("the page was not drawn")


def test_the_list_has_links_to_its_runs_and_can_be_filtered(root, client):
    measured(root / "one")
    training(root / "two", steps=4)
    assert ids(client).keys() == {"one", "two"}
    html = client.get("?kind=training").text
    assert "1 of 2 runs" in html
    assert 'aria-label="Choose two"' in html
    assert 'value="tiny 4"' in client.get("?words=tiny+4").text
    assert "None of 2 runs" in client.get("?words=absent").text


def test_an_empty_directory_says_what_would_be_listed(client):
    assert "No run yet" in client.get("").text


def test_a_page_is_that_of_the_report_with_a_way_back(root, client):
    measured(root / "run")
    (identity,) = ids(client).values()
    first = client.get(f"runs?run={identity}").text
    assert "The step changes the entropy" in first
    html = drawn(client, identity).text
    assert html.count("<svg") > 4
    assert '<a href="./">All runs</a>' in html
    assert html.count("<script") == 1
    assert (
        client.get(f"newest?run={identity}").text
        == re.search(r'data-shown="([0-9a-f]{64})"', html)[1]
    )


def test_trainings_side_by_side_share_their_figures(root, client):
    for name in ("one", "two"):
        training(root / name, steps=4)
    html = drawn(client, *ids(client).values()).text
    assert "2 runs compared" in html
    for title in ("Entropy of the policy", "Reward of the update batches"):
        assert html.count(f">{title}</h3>") == 1
    assert "Single updates, predicted and observed" in html
    (entropy,) = re.findall(r'(?s)id="training-entropy">.*?</figure>', html)
    assert "one" in entropy
    assert "two" in entropy


def test_a_running_training_is_followed(root, client):
    run = training(root / "run", steps=8, taken=4)
    (identity,) = ids(client).values()
    with hold(run):
        before = drawn(client, identity).text
        assert '<span class="state running">' in before
        stamp = client.get(f"newest?run={identity}").text
        assert stamp == client.get(f"newest?run={identity}").text
        checkpoint(run, 8)
        for _ in range(1200):
            if client.get(f"newest?run={identity}").text != stamp:
                break
            time.sleep(0.1)
        after = drawn(client, identity).text
    assert "in 4 steps" in before
    assert "in 8 steps" in after


def test_a_run_without_a_report_says_why(root, client):
    training(root / "run", steps=8, taken=0)
    (identity,) = ids(client).values()
    html = drawn(client, identity).text
    assert "No report page" in html
    assert "expected a training with logged steps, got none" in html


def test_more_runs_than_a_figure_has_room_for_are_refused_in_words(root, client):
    for place in range(9):
        training(root / str(place), steps=4)
    html = drawn(client, *ids(client).values()).text
    assert "expected 1 to 8 runs" in html


def test_a_page_outlives_the_server_until_its_run_changes(root, client, index, pages):
    run = measured(root / "run")
    entry = index.runs()[0]
    html = drawn(client, entry.id).text
    later = Pages(index.root, KINDS, pages._cache)
    assert later.page([entry]).html == html
    (run / "summary.json").touch()
    changed = Pages(index.root, KINDS, pages._cache)
    page = changed.page([entry])
    assert page is None or page.stamp not in html


def test_pages_that_others_could_write_are_not_sent(root, client, index, pages):
    measured(root / "run")
    entry = index.runs()[0]
    drawn(client, entry.id)
    (file,) = pages._cache.glob("*.html")
    file.write_text(PLANTED)
    later = Pages(index.root, KINDS, pages._cache)
    assert later.page([entry]).html == PLANTED
    pages._cache.chmod(0o770)
    later = Pages(index.root, KINDS, pages._cache)
    page = later.page([entry])
    assert page is None or PLANTED not in page.html


def test_pages_of_another_user_are_not_sent(root, client, index, pages, monkeypatch):
    measured(root / "run")
    entry = index.runs()[0]
    drawn(client, entry.id)
    (file,) = pages._cache.glob("*.html")
    file.write_text(PLANTED)
    monkeypatch.setattr(os, "geteuid", lambda: pages._cache.stat().st_uid + 1)
    later = Pages(index.root, KINDS, pages._cache)
    page = later.page([entry])
    assert page is None or PLANTED not in page.html


def test_a_change_of_any_module_draws_pages_again(pages, tmp_path):
    assert pages._code == _code(Path(entrometer.__file__).parent)
    (tmp_path / "runs" / "__pycache__").mkdir(parents=True)
    module = tmp_path / "runs" / "rows.py"
    module.write_text("one = 1")
    before = _code(tmp_path)
    (tmp_path / "runs" / "__pycache__" / "rows.pyc").touch()
    assert _code(tmp_path) == before
    module.write_text("three = 3")
    assert _code(tmp_path) != before


@pytest.mark.parametrize("text", ACTIVE)
def test_a_hostile_text_is_text(root, client, text):
    hostile(root / "run", text)
    html = client.get("").text
    assert text not in html
    (identity,) = ids(client).values()
    page = drawn(client, identity).text
    assert text not in page
    assert PLANTED not in page
    assert text not in client.get("", params={"words": text, "kind": text}).text


def test_the_report_file_of_a_run_is_not_served(root, client):
    run = measured(root / "run")
    (run / "report.html").write_text(PLANTED)
    (identity,) = ids(client).values()
    assert PLANTED not in drawn(client, identity).text


def test_files_outside_are_not_shown(root, client, tmp_path):
    leaving(root, tmp_path / "outside")
    assert SECRET not in client.get("").text
    assert "link-twice" in ids(client)
    for identity in ids(client).values():
        answer = client.get(f"runs?run={identity}")
        assert answer.status_code == 403
        assert ", got a link " in answer.text
        assert "; copy the f" in answer.text


def test_a_page_allows_only_its_own_script_and_server(root, client):
    measured(root / "run")
    (identity,) = ids(client).values()
    for html in (client.get("").text, drawn(client, identity).text):
        (policy,) = re.findall(r'Security-Policy" content="([^"]*)"', html)
        # The header has the same rules: a page that was kept may say anything.
        header = client.get("").headers["content-security-policy"]
        for rule in policy.replace("form-action 'none'", "form-action 'self'").split(
            "; "
        ):
            assert set(rule.split()) <= set(header.replace(";", "").split())
        rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
        assert rules["default-src"] == "'none'"
        assert rules["connect-src"] == "'self'"
        assert rules["script-src"].startswith("'sha256-")
        assert "unsafe" not in rules["script-src"]
        # No address but of this server's own pages.
        links = re.findall(r'(?:href|src|action)="([^"]*)"', html)
        assert not [x for x in links if "//" in x]


def test_a_page_that_this_machine_failed_to_draw_is_tried_again(
    root, client, monkeypatch
):
    measured(root / "run")
    (identity,) = ids(client).values()

    def fails(*_):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patched:
        patched.setattr("entrometer.view.pages.drawn_page", fails)
        assert "Too many open files" in drawn(client, identity).text
    for _ in range(600):
        if "Too many open files" not in drawn(client, identity).text:
            return
        time.sleep(0.1)
    raise AssertionError("the page was not drawn again")
