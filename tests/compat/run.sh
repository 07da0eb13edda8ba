#!/usr/bin/env bash
# The core tests with the oldest versions that are allowed, with those of constraints.txt,
# or with the newest there are.
#
#   tests/compat/run.sh oldest|pinned|newest [TEST...]
#
#   PYTHON  python to make the environment with (default: python)
#   TORCH   what to install first (default: torch, of the version that a constraint names)
#   VENV    where the environment is made (default: .venv-oldest, -pinned or -newest)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

which=${1:-}
case $which in
oldest) constraints=(-c tests/compat/oldest.txt) ;;
pinned) constraints=(-c constraints.txt) ;;
newest) constraints=(--upgrade) ;;
*)
    echo "expected oldest, pinned or newest, got '$which'; name one of them" >&2
    exit 2
    ;;
esac
shift
tests=("$@")
if ((!$#)); then
    tests=(tests/contracts tests/policy tests/passes tests/interventions tests/training)
fi

venv=${VENV:-.venv-$which}
"${PYTHON:-python}" -m venv --clear "$venv"
pip=("$venv/bin/python" -m pip install --quiet)
# By itself: where a processor-only build is on offer, what follows keeps it.
"${pip[@]}" "${constraints[@]}" "${TORCH:-torch}"
"${pip[@]}" "${constraints[@]}" ${TORCH:+"$TORCH"} -e ".[dev,ray,report,smollm2,tasks,train,view]"
"$venv/bin/python" -m pip freeze --exclude-editable >"$venv/installed.txt"
exec "$venv/bin/python" -m pytest -m "not slow and not vllm" "${tests[@]}"
