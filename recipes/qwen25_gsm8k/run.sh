#!/usr/bin/env bash
# The whole recipe: train, evaluate, measure, report. What is done is not done again, so
# after a kill, give the same command.
#
#   recipes/qwen25_gsm8k/run.sh                # two GPUs of 80 GB, most of a day
#   MODEL=tiny recipes/qwen25_gsm8k/run.sh     # one core, no model to fetch, minutes
#
# Settings, by environment:
#   MODEL             name or directory of the model; tiny is small in all else too
#   ENTROMETER_GSM8K  directory with train.jsonl and test.jsonl; the hub's by default
#   RUNS              where everything goes
#   PROCESSES         GPUs that train and measure together
#   DEVICE            cuda or cpu, for what comes after training
#   PYTHON            the interpreter that has entrometer[ray,report,tasks,train]
set -euo pipefail

MODEL="${MODEL:-Qwen/Qwen2.5-1.5B@8faed761d45a263340a0528343f099c05c9a4323}"
PYTHON="${PYTHON:-python}"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

if [ "$MODEL" = tiny ]; then
  RUNS="${RUNS:-runs/qwen25-gsm8k-tiny}"
  PROCESSES="${PROCESSES:-1}"
  DEVICE="${DEVICE:-cpu}"
  count=12
  "$PYTHON" "$here/shortest.py" "$RUNS/gsm8k" "$count"
  export ENTROMETER_GSM8K="$RUNS/gsm8k"
  # A step is a matter of seconds, and large enough to be seen. The answer to a problem
  # is seldom found, so updates are those of the training, where the format counts.
  train=(
    --policy tiny --problems "$count" --steps 2 --save-every 1 --prompts 4 --max-tokens 80
    --learning-rate 1e-4 --imitation.steps 24 --imitation.batch 12
    --imitation.learning-rate 3e-3 --imitation.warmup 2
  )
  quarters=("$RUNS/train/checkpoint-1")
  two=("${quarters[@]}")
  late=("${quarters[@]}")
  problems=4
  measure=(
    --prompts 16 --variance-prompts 0 --curvature-prompts 8 --shard 16
    --synthetic-batches 50 --synthetic-size 8
  )
  influence=(--prompts 16 --shard 16 --folds 4 --remove 0.1)
  kernel=(
    --updates recorded --kernel-prompts 4 --kernel-responses 2 --held-out 4
    --sketches 64 256
  )
  compare=(
    --updates recorded --prompts 16 --shard 16 --folds 4 --minibatches 1/1
    --interventions clip-cov positive-only
  )
else
  RUNS="${RUNS:-runs/qwen25-gsm8k}"
  PROCESSES="${PROCESSES:-2}"
  DEVICE="${DEVICE:-cuda}"
  train=(--policy "$MODEL")
  quarters=("$RUNS"/train/checkpoint-{8,24,40,56})
  two=("$RUNS"/train/checkpoint-{8,40})
  late=("$RUNS/train/checkpoint-40")
  problems=0
  measure=(--prompts 2048 --variance-prompts 0)
  influence=(--prompts 512)
  kernel=(--updates sampled-1 --memory 32)
  compare=(--updates sampled-1 --update-prompts 32 --prompts 512)
fi

entrometer=("$PYTHON" -m entrometer.cli)
together=("${entrometer[@]}")
engine=(--device "$DEVICE")
if [ "$PROCESSES" -gt 1 ]; then
  together=(
    "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$PROCESSES"
    -m entrometer.cli
  )
  engine+=(--engine ray --workers "$PROCESSES")
  if [ "$DEVICE" != cpu ]; then
    engine+=(--worker-gpus 1)
  fi
fi
trained="$RUNS/train"

study() { # A verb, its checkpoints and its settings.
  local verb="$1"
  shift
  # --resume also begins a run that is not there yet.
  "${entrometer[@]}" "$verb" "$@" --run "$RUNS/$verb" --resume --no-report \
    --store "$RUNS/passes" "${engine[@]}"
}

if [ -f "$trained/config.json" ]; then
  # Settings again, so that others than it was begun with are refused.
  "${together[@]}" train --resume "$trained" "${train[@]}"
else
  "${together[@]}" train --recipe qwen25-gsm8k --run "$trained" "${train[@]}"
fi
"${entrometer[@]}" eval "$trained" --device "$DEVICE" --problems "$problems"
study measure "${quarters[@]}" "${measure[@]}"
study influence "${two[@]}" "${influence[@]}"
study kernel "${quarters[@]}" "${kernel[@]}"
study compare "${late[@]}" "${compare[@]}"
"${entrometer[@]}" report \
  "$trained" "$RUNS/measure" "$RUNS/influence" "$RUNS/kernel" "$RUNS/compare" \
  --out "$RUNS/report.html"
