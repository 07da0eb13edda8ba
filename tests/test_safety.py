"""No line of the package can run what a model, a checkpoint or a config wrote."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted(p for d in ("src", "benchmarks") for p in (ROOT / d).rglob("*.py"))

FORBIDDEN_MODULES = {
    *("pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib"),
    *("marshal", "shelve"),
}
FORBIDDEN_NAMES = {
    *("eval", "exec", "compile", "__import__"),
    *("builtins.eval", "builtins.exec", "builtins.compile", "builtins.__import__"),
    *("os.system", "os.popen", "subprocess.getoutput", "subprocess.getstatusoutput"),
    *("yaml.load", "yaml.load_all", "yaml.full_load", "yaml.full_load_all"),
    *("yaml.unsafe_load", "yaml.unsafe_load_all"),
    "pandas.read_pickle",
}
# Safe only as a keyword with this literal; a variable could hold anything.
ONLY_LITERAL = {"shell": False, "allow_pickle": False, "trust_remote_code": False}
TORCH_LOADS = {"torch.load", "torch.serialization.load"}


def import_origins(tree: ast.Module) -> dict[str, str]:
    """Map each local name that an import binds to the dotted name it stands for."""
    origins = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                # `import a.b` binds a; `import a.b as c` binds a.b.
                top = alias.name.partition(".")[0]
                origins[alias.asname or top] = alias.name if alias.asname else top
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                origins[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    return origins


def dotted_name(node: ast.AST, origins: dict[str, str]) -> str:
    """Return what a name or attribute chain refers to, "" for any other node."""
    if isinstance(node, ast.Name):
        return origins.get(node.id, node.id)
    if isinstance(node, ast.Attribute):
        base = dotted_name(node.value, origins)
        return f"{base}.{node.attr}" if base else ""
    return ""


def is_literal(node: ast.AST, value: bool) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def unsafe_lines(source: str) -> Iterator[str]:
    """Yield "line: reason" for everything in the source that could run foreign code."""
    tree = ast.parse(source)
    origins = import_origins(tree)
    safe_loads = {
        call.func
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and any(
            k.arg == "weights_only" and is_literal(k.value, True) for k in call.keywords
        )
    }
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            paths = [*names, getattr(node, "module", None) or ""]
            if FORBIDDEN_MODULES & {part for path in paths for part in path.split(".")}:
                yield f"{line}: imports {', '.join(names)}"
        elif isinstance(node, ast.keyword) and node.arg in ONLY_LITERAL:
            if not is_literal(node.value, ONLY_LITERAL[node.arg]):
                yield f"{line}: {node.arg}={ast.unparse(node.value)}"
        elif isinstance(node, ast.Constant) and node.value == "trust_remote_code":
            yield f"{line}: names trust_remote_code"
        elif isinstance(node, ast.arg) and node.arg == "trust_remote_code":
            yield f"{line}: offers trust_remote_code"
        elif name := dotted_name(node, origins):
            if name in FORBIDDEN_NAMES or name.endswith(".trust_remote_code"):
                yield f"{line}: {name}"
            elif name in TORCH_LOADS and node not in safe_loads:
                yield f"{line}: {name} without weights_only=True"


def test_sources_are_found():
    assert ROOT / "src" / "entrometer" / "errors.py" in SOURCES


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_source_is_safe(path):
    assert list(unsafe_lines(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "snippet",
    [
        "eval('1 + 1')",
        "exec('x = 1')",
        "run = eval",
        "compile(text, 'f', 'exec')",
        "import builtins\nbuiltins.exec(text)",
        "from builtins import eval as harmless\nharmless(text)",
        "__import__('os')",
        "import pickle",
        "import cloudpickle as codec",
        "from pickle import loads",
        "from torch.multiprocessing import pickle",
        "import yaml\nyaml.load(text)",
        "import yaml as y\ny.load(text, Loader=y.SafeLoader)",
        "from yaml import unsafe_load as read\nread(text)",
        "import subprocess\nsubprocess.run(line, shell=True)",
        "import subprocess\nsubprocess.run(line, shell=chosen)",
        "import os\nos.system(line)",
        "from os import popen\npopen(line)",
        "import torch\ntorch.load(path)",
        "import torch\ntorch.load(path, weights_only=False)",
        "import torch\ntorch.load(path, weights_only=chosen)",
        "import torch as t\nt.load(path)",
        "from torch import load\nload(path)",
        "import torch\nread = torch.load",
        "import torch.serialization\ntorch.serialization.load(path)",
        "import numpy as np\nnp.load(path, allow_pickle=True)",
        "AutoModel.from_pretrained(path, trust_remote_code=True)",
        "AutoModel.from_pretrained(path, trust_remote_code=chosen)",
        "AutoModel.from_pretrained(path, **{'trust_remote_code': True})",
        "def load(path, trust_remote_code=False): ...",
        "config.trust_remote_code = True",
    ],
)
def test_bad_snippet_is_caught(snippet):
    assert list(unsafe_lines(snippet)) != []


@pytest.mark.parametrize(
    "snippet",
    [
        "model.eval()",
        "'''Never call eval, exec or pickle.'''",
        "import re\nre.compile(text)",
        "import torch\ntorch.compile(model)",
        "import json\njson.load(file)",
        "import yaml\nyaml.safe_load(text)",
        "import torch\ntorch.load(path, weights_only=True)",
        "import numpy as np\nnp.load(path, allow_pickle=False)",
        "import subprocess\nsubprocess.run([tool, path])",
        "AutoModel.from_pretrained(path, trust_remote_code=False)",
    ],
)
def test_good_snippet_passes(snippet):
    assert list(unsafe_lines(snippet)) == []
