"""What a store holds is compared with its log before it is reused."""

import pytest
import torch

from entrometer.engine import LocalEngine, Manifest, quiet, read_log
from entrometer.engine.manifest import LOG, result_sha256
from entrometer.engine.vectors import write_vectors
from entrometer.runs import DamagedFile
from tests.engine.pieces import Hand, Piece


@pytest.fixture
def store(tmp_path):
    LocalEngine().run([Piece("a")], worker=Hand, store=tmp_path, progress=quiet)
    return tmp_path


def test_a_result_of_the_log_is_whole(store):
    Manifest(store).require_whole("a.txt")


def test_an_altered_result_is_refused_by_name(store):
    (store / "a.txt").write_text("b()")
    with pytest.raises(DamagedFile, match=rf"a\.txt.*{LOG} lists"):
        Manifest(store).require_whole("a.txt")


def test_either_of_two_results_of_one_name_is_whole(store):
    """As two processes that made it at once may have rounded."""
    first = (store / "a.txt").read_text()
    (store / "a.txt").write_text("a( )")
    (row,) = read_log(store)
    manifest = Manifest(store)
    manifest.add(type(row)(**_fields(row) | {"sha256": result_sha256(store / "a.txt")}))
    for content in (first, "a( )"):
        (store / "a.txt").write_text(content)
        Manifest(store).require_whole("a.txt")


@pytest.mark.parametrize("log", [None, b"", b"{", b"\xff\xfe\n", b"[" * 100_000])
def test_a_damaged_log_lists_nothing(store, log):
    (store / LOG).unlink()
    if log is not None:
        (store / LOG).write_bytes(log)
    (store / "a.txt").write_text("b()")
    Manifest(store).require_whole("a.txt")


def notes(store, reused=("a.txt",), made=()):
    return " ".join(Manifest(store).notes(reused, made))


def test_a_whole_log_has_no_notes(store):
    assert notes(store) == ""
    assert notes(store, made=["b.txt"]) == ""


@pytest.mark.parametrize("place", range(0, 160, 7))
def test_a_flipped_byte_of_the_log_is_named(store, place):
    content = bytearray((store / LOG).read_bytes())
    content[place % len(content)] ^= 1
    (store / LOG).write_bytes(content)
    assert LOG in notes(store)


@pytest.mark.parametrize(
    "change", [lambda b: b"", lambda b: b[:-1], lambda b: b[:50], lambda b: b + b"\0"]
)
def test_a_log_that_is_cut_or_longer_is_named(store, change):
    (store / LOG).write_bytes(change((store / LOG).read_bytes()))
    assert LOG in notes(store)


def test_a_store_without_its_log_is_named(store):
    (store / LOG).unlink()
    assert "does not list 1 of the stored passes, such as a.txt" in notes(store)


def test_a_result_that_is_listed_and_missing_is_named(store):
    assert "computed again, such as a.txt" in notes(store, reused=(), made=["a.txt"])


def test_a_result_of_several_files_has_one_hash_of_all(tmp_path):
    path = tmp_path / "sum.safetensors"
    tensors = {f"x{i}": torch.full((4,), float(i)) for i in range(3)}
    write_vectors(path, tensors.items(), shard_bytes=16)
    before = result_sha256(path)
    shard = sorted(tmp_path.glob("sum.0*.safetensors"))[1]
    content = shard.read_bytes()
    shard.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert result_sha256(path) != before


def _fields(row):
    return {name: getattr(row, name) for name in row.__slots__}
