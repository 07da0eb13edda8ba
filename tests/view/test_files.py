"""What a page of a run may read, and when it is drawn again."""

import os

import pytest

from benchmarks.view.made import checkpoint, measured, training
from entrometer.runs import seal, verified, write_json
from entrometer.view.files import LeavesDirectory, stamp


@pytest.fixture
def run(root):
    """A training with a checkpoint of step 4 and a finished evaluation."""
    run = training(root / "run", steps=8, taken=4)
    measured(run / "evaluation" / "key")
    return run


@pytest.mark.parametrize(
    "name",
    [
        "checkpoint-4",
        "evaluation",
        "evaluation/key",
        "evaluation/key/results",
        "results",
    ],
)
def test_a_link_to_a_folder_is_refused(root, run, name):
    # Its target is in the directory, but may have links out of it.
    target = root / ".elsewhere"
    if (run / name).exists():
        (run / name).rename(target)
    else:
        target.mkdir()
    (run / name).symlink_to(target)
    with pytest.raises(LeavesDirectory, match="got a link to one; copy the folder"):
        stamp(run, root)


def test_a_run_replaced_by_a_link_is_refused(root, run):
    run.rename(root / ".elsewhere")
    run.symlink_to(".elsewhere")
    with pytest.raises(LeavesDirectory, match="got a link to one"):
        stamp(run, root)


def test_a_link_next_to_a_run_is_refused(root, run, tmp_path):
    # The report looks in the manifests of its siblings for the files of a run.
    (root / "checkpoint-4").symlink_to(tmp_path)
    with pytest.raises(LeavesDirectory, match="got a link to one"):
        stamp(run, root)


@pytest.mark.parametrize("folder", ["", "checkpoint-4", "evaluation/key"])
def test_a_manifest_that_lists_a_file_outside_its_run_is_refused(
    root, run, tmp_path, folder
):
    outside = tmp_path / "outside"
    outside.write_text("outside")
    before = stamp(run, root)
    seal(run / folder, beside=[outside])
    # The report would open and hash the file.
    assert verified(run / folder) is not None
    with pytest.raises(LeavesDirectory, match=r"lists files of its run, got '\.\./"):
        stamp(run, root)
    seal(run / folder, beside=[run / "config.json"])
    assert stamp(run, root) != before


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "//etc/passwd", "..", "../../x", "x/../config.json", "./x", ""],
)
def test_a_listed_name_of_no_normal_form_is_refused(root, run, name):
    write_json(run / "manifest.json", {"files": {name: {}}})
    with pytest.raises(LeavesDirectory, match="lists files of its run"):
        stamp(run, root)


@pytest.mark.parametrize("name", ["\0", "\ud800", "absent"])
def test_a_listed_name_of_no_file_is_left_to_the_report(root, run, name):
    write_json(run / "manifest.json", {"files": {name: {}}})
    assert stamp(run, root)


def test_a_listed_name_through_a_link_is_refused(root, run, tmp_path):
    target = tmp_path / "folder"
    target.mkdir()
    (target / "file").touch()
    (run / "other").mkdir()
    (run / "other" / "file").touch()
    seal(run)
    stamp(run, root)
    (run / "other" / "file").unlink()
    (run / "other").rmdir()
    (run / "other").symlink_to(target)
    with pytest.raises(LeavesDirectory, match="got a link to one"):
        stamp(run, root)


def test_files_that_the_report_does_not_read_leave_the_page(root, run):
    before = stamp(run, root)
    for name in ("runs/events.out.tfevents.1", "train.log", "evaluation/x.log"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_text("a line")
    os.utime(run / "checkpoint-4")
    assert stamp(run, root) == before


@pytest.mark.parametrize(
    "name",
    [
        "config.json",
        "manifest.json",
        "metrics.parquet",
        "evaluation.parquet",
        "checkpoint-4/manifest.json",
        "checkpoint-4/trainer_state.json",
        "evaluation/key/manifest.json",
        "evaluation/key/results/changes.parquet",
        "evaluation/key/results/results.parquet",
        "updates/step-00000004.parquet",
    ],
)
def test_files_that_the_report_reads_change_the_stamp(root, run, name):
    file = run / name
    file.parent.mkdir(exist_ok=True)
    if name.startswith("updates"):
        # A checkpoint lists the updates since the last one.
        file.touch()
        seal(run / "checkpoint-4", beside=[file])
    before = stamp(run, root)
    file.touch()
    os.utime(file, (1e9, 1e9))
    assert stamp(run, root) != before


def test_a_new_checkpoint_changes_the_stamp(root, run):
    before = stamp(run, root)
    (run / "checkpoint-6").mkdir()
    damaged = stamp(run, root)
    checkpoint(run, 8)
    assert len({before, damaged, stamp(run, root)}) == 3
