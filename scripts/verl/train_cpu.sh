#!/usr/bin/env bash
# Trains on verl 0.9 on a processor, in verl's own environment (`make test-verl` makes it; docs/raro.md, 'On verl').
# From the project's folder, with the name of a configuration in configs/verl:
#   PYTHON=.venv-integrations/verl/bin/python scripts/verl/train_cpu.sh raro +game=numbers [key=value …]
set -euo pipefail
[[ $# -ge 1 ]] || { echo "usage: $0 raro [key=value …]" >&2; exit 1; }
config=$1
shift
export VERL_USE_EXTERNAL_MODULES=llm_rl.integrations.verl.cpu.platform
# Processes meet at a file: verl chooses a port long before it listens there, and another process may have it by then.
export DIST_INIT_METHOD="file://$(mktemp -u)"
exec "${PYTHON:-python}" -m verl.trainer.main_ppo --config-path="$PWD/configs/verl" --config-name="$config" \
    +platform=cpu "$@"
