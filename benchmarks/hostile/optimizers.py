"""Hostile `optimizer.pt` and `trainer_state.json` of a checkpoint."""

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks.hostile.case import Case, Pickled, Workshop, deep, measure, put, sparse
from benchmarks.hostile.configs import checkpoint

State = dict[str, Any]


def _of(key: str, value: Any) -> Callable[[State], None]:
    def change(content: State) -> None:
        content["state"][0][key] = value

    return change


def _group(key: str, value: Any) -> Callable[[State], None]:
    def change(content: State) -> None:
        for group in content["param_groups"]:
            group[key] = value

    return change


def _nested(content: State) -> None:
    """Lists that hold one another twice, 60 deep: 2^60 entries to whoever counts."""
    inside: list[Any] = [0]
    for _ in range(60):
        inside = [inside, inside]
    _group("lr", inside)(content)


def _twice(content: State) -> None:
    content["param_groups"][0]["params"][1] = content["param_groups"][0]["params"][0]


CHANGES: dict[str, Callable[[State], Any]] = {
    "param_groups 5": lambda c: c.update(param_groups=5),
    "param_groups of numbers": lambda c: c.update(param_groups=[1, 2]),
    "no param_groups": lambda c: c.pop("param_groups"),
    "no groups": lambda c: c.update(param_groups=[]),
    "state a list": lambda c: c.update(state=[1, 2]),
    "state of numbers": lambda c: c.update(state={0: 1}),
    "no state": lambda c: c.pop("state"),
    "state for a stranger": lambda c: c["state"].update({10**6: {}}),
    "keys that are tensors": lambda c: c.update(state={"a": {"step": torch.ones(1)}}),
    "moments as text": _of("exp_avg", "a"),
    "moments as a list": _of("exp_avg_sq", [1.0]),
    "complex moments": lambda c: _of(
        "exp_avg", c["state"][0]["exp_avg"].to(torch.complex64)
    )(c),
    "whole moments": lambda c: _of("exp_avg", c["state"][0]["exp_avg"].long())(c),
    "sparse moments": lambda c: _of("exp_avg", c["state"][0]["exp_avg"].to_sparse())(c),
    "moments on meta": lambda c: _of("exp_avg", c["state"][0]["exp_avg"].to("meta"))(c),
    "NaN moments": lambda c: c["state"][0]["exp_avg"].fill_(torch.nan),
    "negative squares": lambda c: c["state"][0]["exp_avg_sq"].fill_(-1),
    "another shape": _of("exp_avg", torch.ones(3)),
    "a moment of 4 TB from one number": _of("exp_avg", torch.ones(1).expand(10**12)),
    "no moments": lambda c: c["state"].__setitem__(0, {}),
    "NaN step": _of("step", torch.tensor(torch.nan)),
    "infinite step": _of("step", torch.tensor(torch.inf)),
    "negative step": _of("step", torch.tensor(-1.0)),
    "half a step": _of("step", torch.tensor(2.5)),
    "many steps": _of("step", torch.ones(3)),
    "step as text": _of("step", "3"),
    "another step": _of("step", torch.tensor(2.0)),
    "a parameter twice": _twice,
    "params 5": _group("params", 5),
    "params of lists": _group("params", [[1]]),
    "lr as text": _group("lr", "1e-4"),
    "lr NaN": _group("lr", float("nan")),
    "lr negative": _group("lr", -1.0),
    "lr nested 2^60": _nested,
    "betas 5": _group("betas", 5),
    "betas of three": _group("betas", (0.9, 0.9, 0.9)),
    "beta 1": _group("betas", (1.0, 0.999)),
    "beta NaN": _group("betas", (float("nan"), 0.999)),
    "epsilon as a list": _group("eps", [1]),
    "epsilon complex": _group("eps", 1j),
    "decay NaN": _group("weight_decay", float("nan")),
    "decay as text": _group("weight_decay", "a"),
    "amsgrad": _group("amsgrad", True),
    "no betas": lambda c: [group.pop("betas") for group in c["param_groups"]],
}


STATES = {
    "deep": deep(50_000),
    "a list": "[]",
    "step as text": '{"global_step": "3"}',
    "step true": '{"global_step": true}',
    "step negative": '{"global_step": -3}',
    "step missing": "{}",
    "step 2": '{"global_step": 2}',
    "step NaN": '{"global_step": NaN}',
    "step of 10,000 digits": '{"global_step": ' + "9" * 10_000 + "}",
    "cut": '{"global_step": 3',
}


def cases() -> list[Case]:
    found = [_case(name, change) for name, change in CHANGES.items()]
    found += [_file(name, write) for name, write in FILES.items()]
    found += [_state(name, text) for name, text in STATES.items()]
    return found


def _case(name: str, change: Callable[[State], Any]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        file = path / "optimizer.pt"
        content = torch.load(file, weights_only=True)
        change(content)
        file.unlink()
        torch.save(content, file)
        return measure(shop, path)

    return Case("optimizers", name, make, "optimizer.pt")


def _state(name: str, text: str) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        put(path / "trainer_state.json", text)
        return measure(shop, path)

    return Case("trainer states", name, make, "trainer_state.json")


def _deflated(file: Path, canary: Path) -> None:
    """A tensor of 2 GB of zeros, compressed to 2 MB."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}.")
        with archive.open("a/data/0", "w", force_zip64=True) as entry:
            for _ in range(2**11):
                entry.write(bytes(2**20))
        archive.writestr("a/version", "3\n")


def _calling(name: str, *arguments: str | int) -> bytes:
    """A pickle that calls a function, written by hand."""
    module, _, function = name.rpartition(".")
    code = f"\x80\x02c{module}\n{function}\n(".encode("latin1")
    for value in arguments:
        if isinstance(value, int):
            code += b"J" + struct.pack("<i", value)
        else:
            code += b"X" + struct.pack("<I", len(value.encode())) + value.encode()
    return code + b"tR."


def _packed(*call: str | int) -> Callable[[Path, Path], None]:
    """The call in an archive, as torch writes one."""

    def write(file: Path, canary: Path) -> None:
        own = [str(canary) if x == _CANARY else x for x in call]
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a/data.pkl", _calling(str(own[0]), *own[1:]))
            archive.writestr("a/version", "3\n")

    return write


_CANARY = "canary"


def _claims(file: Path, canary: Path) -> None:
    """A storage of 8 GB by its pickle, of 4 bytes in the archive."""
    torch.save({"state": {}, "param_groups": torch.zeros(1)}, file)
    raw = file.read_bytes()
    at = raw.index(b"cpuq")
    count = raw.index(b"K\x01tq", at)
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    name = next(n for n in entries if n.endswith("data.pkl"))
    assert raw[count : count + 2] == b"K\x01"
    before, _, after = entries[name].partition(b"K\x01tq")
    entries[name] = before + b"J\x00\x00\x00\x7ftq" + after
    with zipfile.ZipFile(file, "w") as archive:
        for entry, content in entries.items():
            archive.writestr(entry, content)


FILES: dict[str, Callable[[Path, Path], None]] = {
    "empty": lambda file, canary: put(file, b""),
    "text": lambda file, canary: put(file, "hello"),
    "a legacy pickle": lambda file, canary: torch.save(
        {"a": Pickled(canary)}, file, _use_new_zipfile_serialization=False
    ),
    "a plain pickle": lambda file, canary: put(
        file, _calling("posix.mkdir", str(canary))
    ),
    "a hostile pickle": lambda file, canary: torch.save({"a": Pickled(canary)}, file),
    "a hostile pickle alone": _packed("posix.mkdir", _CANARY),
    "a tensor": lambda file, canary: torch.save(torch.ones(3), file),
    "deflated": _deflated,
    "bytes from a number": _packed("__builtin__.bytearray", 2 * 10**9),
    "a codec that takes hours": _packed(
        "_codecs.encode", "".join(map(chr, range(300, 9000))) * 30, "punycode"
    ),
    "a storage that is not there": _claims,
    "an empty archive": lambda file, canary: zipfile.ZipFile(file, "w").close(),
    "1 TiB of zeros": lambda file, canary: sparse(file, 2**40),
}


def _file(name: str, write: Callable[[Path, Path], None]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        (path / "optimizer.pt").unlink()
        write(path / "optimizer.pt", shop.canary)
        return measure(shop, path)

    return Case("optimizers", name, make, "optimizer.pt")
