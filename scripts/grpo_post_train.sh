#!/usr/bin/env bash
# Post-trains a selector: RCE, then GRPO. The same as `python -m grpo_training.selector train`, with --gpu.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: scripts/grpo_post_train.sh --sft_ckpt FILE --beam_data FILE [options]

  --sft_ckpt FILE     checkpoint to start from: of `selector sft`, or rce_final.ckpt of an earlier run
  --beam_data FILE    beam file or reward file
  --output_dir DIR    run directory (default: outputs/selector)
  --rce_epochs N      epochs of RCE, the warm-up (default: 2)
  --grpo_epochs N     epochs of GRPO (default: 3)
  --embeddings FILE   embeddings (default: those that the checkpoint records)
  --img_emb FILE      image embeddings, together with --text_emb FILE
  --batch_size N      queries per optimizer step (default: 32)
  --grpo_lr X         learning rate of GRPO (default: 1e-4)
  --max_samples N     queries that are used
  --dry_run           check everything, make one step of each phase, write nothing
  --gpu N             index of the GPU
  --config FILE       YAML file with any setting, such as grpo_training/configs/selector.yaml

All other options of `python -m grpo_training.selector train --help` are passed on.
The interpreter is $PYTHON, else .venv/bin/python, else python3.
TEXT
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
words=()
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help)
            usage
            exit 0
            ;;
        --gpu)
            export CUDA_VISIBLE_DEVICES=${2:?--gpu needs an index}
            shift 2
            ;;
        *)
            words+=("$1")
            shift
            ;;
    esac
done

python=${PYTHON:-}
if [ -z "$python" ]; then
    python=$root/.venv/bin/python
    [ -x "$python" ] || python=python3
fi
export PYTHONPATH=$root${PYTHONPATH:+:$PYTHONPATH}
exec "$python" -m grpo_training.selector train ${words[@]+"${words[@]}"}
