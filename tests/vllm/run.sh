#!/usr/bin/env bash
# Sample from a real vLLM server on the processor and check its tokens.
#
#   PYTHON      python that has this package and its tests' needs (default: python)
#   VLLM_VENV   where vLLM lives or will be installed (default: .venv-vllm)
#   VLLM_MODEL  a model directory to serve (default: a tiny one, made on the spot)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-python}
export VLLM_VENV=${VLLM_VENV:-$PWD/.venv-vllm}

# Its pins are its own: vLLM and this package never share an environment. The stamp is
# written last, so an install that was cut short is taken up again.
stamp=$VLLM_VENV/installed.txt
if ! cmp -s tests/vllm/requirements.txt "$stamp"; then
    "$python" -m venv "$VLLM_VENV"
    "$VLLM_VENV/bin/python" -m pip install --quiet torch==2.13.0
    "$VLLM_VENV/bin/python" -m pip install --quiet --no-deps -r tests/vllm/requirements.txt
    cp tests/vllm/requirements.txt "$stamp"
fi

exec "$python" -m pytest -m vllm tests/vllm "$@"
