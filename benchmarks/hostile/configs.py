"""Hostile settings of a model: `config.json` and its kin in a checkpoint."""

from pathlib import Path
from typing import Any

from benchmarks.hostile.case import Case, Workshop, deep, edit, measure, put, sparse
from benchmarks.hostile.world import STEP

_CODE = "import pathlib\npathlib.Path({canary!r}).touch()\n"

CHANGES: dict[str, dict[str, Any]] = {
    "layers -1": {"num_hidden_layers": -1},
    "layers 0": {"num_hidden_layers": 0},
    "layers 1e5": {"num_hidden_layers": 10**5},
    "layers 1e5, each listed": {
        "num_hidden_layers": 10**5,
        "layer_types": ["full_attention"] * 10**5,
    },
    "layers 1e9": {"num_hidden_layers": 10**9},
    "layers 1e12": {"num_hidden_layers": 10**12},
    "layers as text": {"num_hidden_layers": "4"},
    "layers as a list": {"num_hidden_layers": [4]},
    "layers null": {"num_hidden_layers": None},
    "layers NaN": {"num_hidden_layers": float("nan")},
    "vocabulary 15e6": {"vocab_size": 15_000_000},
    "vocabulary 1e12": {"vocab_size": 10**12},
    "vocabulary -1": {"vocab_size": -1},
    "vocabulary 1": {"vocab_size": 1},
    "width 1e6": {"hidden_size": 10**6},
    "width 1e9": {"hidden_size": 10**9},
    "width 0": {"hidden_size": 0},
    "inner width 1e8": {"intermediate_size": 10**8},
    "no heads": {"num_attention_heads": 0},
    "heads 1e9": {"num_attention_heads": 10**9},
    "head of 1e9": {"head_dim": 10**9},
    "labels 1e9": {"num_labels": 10**9},
    "padding beyond the vocabulary": {"pad_token_id": 10**6},
    "unknown activation": {"hidden_act": "os.system"},
    "unknown rotary type": {"rope_parameters": {"rope_type": "os.system"}},
    "rotary type as a list": {"rope_parameters": ["default"]},
    "unknown type": {"model_type": "stranger"},
    "type as a number": {"model_type": 5},
    "another type": {"model_type": "bert"},
    "masks of 1e6 positions": {"model_type": "gpt2", "n_positions": 10**6},
    "weights elsewhere": {"transformers_weights": "../../out/model.safetensors"},
    "weights as a pickle": {"transformers_weights": "adapter_model.bin"},
    "quantised": {"quantization_config": {"quant_method": "bitsandbytes"}},
    "dtype of no tensor": {"dtype": "os"},
    "architectures as a number": {"architectures": 5, "num_hidden_layers": 5},
    "layer types as a number": {"layer_types": 7},
}

RAW: dict[str, str] = {
    "empty": "",
    "cut": '{"model_type": ',
    "a list": "[1, 2]",
    "a number": "7",
    "deep": deep(100_000),
    "deep but parsable": deep(900),
    "not UTF-8": "\udc80",
    "a number of 10,000 digits": '{"vocab_size": ' + "9" * 10_000 + "}",
    "40 MiB of lists": '{"a": [' + "[]," * (14 * 2**20) + "[]]}",
    "5 MiB of dicts": '{"a": [' + "{}," * (2**21) + "{}]}",
}


def cases() -> list[Case]:
    found = [_case(name, change) for name, change in CHANGES.items()]
    found += [_raw(name, text) for name, text in RAW.items()]
    found += [_remote_code(name) for name in ("config.json", "tokenizer_config.json")]
    found.append(
        Case("configs", "1 TiB of zeros", lambda shop: _sparse(shop), "config.json")
    )
    return found


def checkpoint(shop: Workshop) -> Path:
    return shop.copy("full") / f"checkpoint-{STEP}"


def _case(name: str, change: dict[str, Any]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        edit(path / "config.json", **change)
        return measure(shop, path)

    return Case("configs", name, make, f"checkpoint-{STEP}")


def _raw(name: str, text: str) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        put(path / "config.json", text.encode(errors="surrogateescape"))
        return measure(shop, path)

    return Case("configs", name, make, "config.json")


def _remote_code(file: str) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        put(path / "evil.py", _CODE.format(canary=str(shop.canary)))
        kinds = ("AutoConfig", "AutoModelForCausalLM", "AutoTokenizer")
        automatic: dict[str, Any] = dict.fromkeys(kinds, "evil.Evil")
        automatic["AutoTokenizer"] = ["evil.Evil", "evil.Evil"]
        edit(path / file, auto_map=automatic, model_type="evil", tokenizer_class="Evil")
        return measure(shop, path)

    # The settings name a type of model that does not exist; a tokenizer is read from
    # tokenizer.json, and the code is passed over.
    stated = "" if file == "config.json" else "is not run"
    return Case("configs", f"code in {file}", make, f"checkpoint-{STEP}", stated)


def _sparse(shop: Workshop) -> list[str]:
    path = checkpoint(shop)
    sparse(path / "config.json", 2**40)
    return measure(shop, path)
