#!/usr/bin/env bash
# Install the wheel as a user would, in environments of its own, and use it.
#
#   tests/install/run.sh [WHEEL]   default: build one with .ci/build
#
#   PYTHON  python to make the environments with (default: python)
#   TORCH   what to install first (default: torch, of the version of constraints.txt)
#   DEMO    0 to leave the demo out (default: 1)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

python=${PYTHON:-python}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wheel=${1:-}
if [[ -z $wheel ]]; then
    PYTHON=$python .ci/build "$work/dist"
    wheel=$(echo "$work"/dist/*.whl)
fi
wheel=$(realpath "$wheel")
torch=${TORCH:-$(grep '^torch==' constraints.txt)}

# Outside the repository, whose packages would otherwise be found first.
cd "$work"
for extra in "" "[all]"; do
    "$python" -m venv --clear environment
    environment/bin/python -m pip install --quiet "$torch"
    environment/bin/python -m pip install --quiet "$wheel$extra"
    environment/bin/python -m pip check
    environment/bin/entrometer --version
    environment/bin/entrometer --help >help.txt
    environment/bin/python -X importtime -c "import entrometer" 2>imported.txt
    if grep -w torch imported.txt; then
        echo "expected that importing entrometer does not import torch" >&2
        exit 1
    fi
    if [[ -z $extra ]]; then
        # Without extras, the demo must name what to install before it does anything.
        if environment/bin/entrometer demo 2>refused.txt; then
            echo "expected that the demo needs extras" >&2
            exit 1
        fi
        cat refused.txt
        grep -F "pip install 'entrometer[all]'" refused.txt >/dev/null
        [[ ! -e runs ]]
    elif [[ ${DEMO:-1} != 0 ]]; then
        OMP_NUM_THREADS=1 environment/bin/entrometer demo
        [[ -s runs/demo/report.html ]]
    fi
done
