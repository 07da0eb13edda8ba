"""A file of `torch.save` is read as plain data, and is no larger than it is."""

import pickle
import zipfile
from contextlib import suppress

import pytest
import torch

from entrometer.policy.optimizer_state import optimizer_key
from entrometer.policy.sources import SourceNotFound, UnreadableSource
from entrometer.policy.tensor_files import read_tensors

WEIGHT = torch.ones(1000)


def read(path):
    return read_tensors(path, absent="Save it.")


def test_what_was_saved_comes_back(tmp_path):
    path = tmp_path / "a.pt"
    weight = torch.arange(6.0)
    torch.save({"a": weight, "tied": weight, "b": [1, "c", (2.5, None)]}, path)
    found = read(path)
    assert torch.equal(found["a"], weight)
    assert found["b"] == [1, "c", (2.5, None)]


def test_an_absent_file_is_named(tmp_path):
    with pytest.raises(SourceNotFound, match=r"a\.pt: no such file\. Save it\."):
        read(tmp_path / "a.pt")


def packed(path, pickled, compression=zipfile.ZIP_STORED, **entries):
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr("a/version", "3\n")
        for name, content in entries.items():
            archive.writestr(f"a/data/{name}", content)


def test_compressed_entries_are_refused_before_they_are_read(tmp_path):
    path = tmp_path / "a.pt"
    packed(path, pickle.dumps({}, 2), zipfile.ZIP_DEFLATED, zeros=bytes(10**7))
    assert path.stat().st_size < 50_000
    for reader in (read, optimizer_key):
        with pytest.raises(UnreadableSource, match=r"a\.pt.*compressed"):
            reader(path)


@pytest.mark.parametrize("name", ["__builtin__\nbytearray", "_codecs\nencode"])
def test_functions_that_expand_are_not_called(tmp_path, name):
    path = tmp_path / "a.pt"
    packed(path, b"\x80\x02c" + name.encode() + b"\n(K\x05tR.")
    with pytest.raises(UnreadableSource, match="got bytes"):
        read(path)


@pytest.mark.parametrize(
    "content",
    [
        {"a": torch.ones(1).expand(10**12)},
        {"a": [WEIGHT[i:] for i in range(500)]},
    ],
)
def test_views_larger_than_the_file_are_refused(tmp_path, content):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(UnreadableSource, match=r"expected tensors of .* in all"):
        read(tmp_path / "a.pt")


def test_lists_that_hold_one_another_are_counted_once(tmp_path):
    inside = [torch.ones(3)]
    for _ in range(80):
        inside = [inside, inside]
    torch.save({"a": inside}, tmp_path / "a.pt")
    assert len(read(tmp_path / "a.pt")["a"]) == 2


def test_a_storage_is_no_longer_than_its_entry(tmp_path):
    """Torch would read beyond the end of what the archive holds."""
    path = tmp_path / "a.pt"
    torch.save({"a": torch.zeros(1)}, path)
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            longer = content.replace(b"K\x01tq", b"J\x00\x00\x00\x7ftq")
            archive.writestr(name, longer)
    # A view of what the file holds, or refused; never what lies behind it in memory.
    with suppress(UnreadableSource):
        assert read(path)["a"].untyped_storage().nbytes() <= path.stat().st_size


@pytest.mark.parametrize("content", [b"", b"text", pickle.dumps({"a": 1})])
def test_anything_but_an_archive_is_refused(tmp_path, content):
    (tmp_path / "a.pt").write_bytes(content)
    with pytest.raises(UnreadableSource, match=r"a\.pt: not a whole file"):
        read(tmp_path / "a.pt")


def test_a_value_that_is_no_dict_is_refused(tmp_path):
    torch.save(torch.ones(2), tmp_path / "a.pt")
    with pytest.raises(UnreadableSource, match="expected named tensors, got a Tensor"):
        read(tmp_path / "a.pt")
