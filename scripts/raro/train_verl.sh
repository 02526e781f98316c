#!/usr/bin/env bash
# RARO on verl 0.9, on a machine with GPUs and verl's own environment (docs/raro.md). From the project's folder:
#   MODEL=my-model scripts/raro/train_verl.sh train.jsonl validation.jsonl [trainer.n_gpus_per_node=1 …]
set -euo pipefail
: "${MODEL:?set MODEL to a folder or a name on the hub}"
[[ $# -ge 2 ]] || { echo "usage: MODEL=my-model $0 train.jsonl validation.jsonl [key=value …]" >&2; exit 1; }
train=$1 validation=$2
shift 2
python -m scripts.raro.make_verl_data --train "$train" --validation "$validation" --output_dir runs/verl
exec python -m verl.trainer.main_ppo --config-path="$PWD/configs/verl" --config-name=raro \
    actor_rollout_ref.model.path="$MODEL" "$@"
