#!/usr/bin/env bash
# Measures the fine-tune on one NVIDIA GPU, in at most 8 minutes: correctness of FlexAttention, the update step beside
# TRL's with the kernels of both, and a few online steps with their memory. Needs the training stack (make finetune) with
# a torch for CUDA.
#
# usage: scripts/gpu_check.sh MODEL [PROBLEMS]
# MODEL: folder of a causal language model. PROBLEMS: file of Python problems (such as MBPP) for the online steps.
set -uo pipefail
model=${1:?usage: scripts/gpu_check.sh MODEL [PROBLEMS]}
problems=${2:-}
python=${PYTHON:-.venv/bin/python}
nvidia-smi -L >/dev/null 2>&1 || { echo "No NVIDIA GPU is visible (nvidia-smi -L)."; exit 1; }
"$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' ||
    { echo "The torch of $python has no CUDA. Install a build for CUDA, then this project's finetune extra."; exit 1; }
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-0}
failed=0

part() {  # part SECONDS TITLE COMMAND...: run a command with a time limit, and go on if it fails
    local limit=$1 title=$2
    shift 2
    echo "== $title"
    timeout "$limit" "$@" || { echo "failed (exit $?): $*"; failed=1; }
}

nvidia-smi --query-gpu=name,memory.total --format=csv,noheader
"$python" -c 'import torch, transformers, trl; print("torch", torch.__version__, "transformers", transformers.__version__, "trl", trl.__version__)'
part 70 "FlexAttention against padded rows" "$python" -m pytest -q -p no:cacheprovider -k gpu tests/grpo_training/train/objective
part 75 "update step, 8 replies of 512 tokens to a prompt of 512" \
    "$python" -m bench.real_model_step --model "$model" --rows 8 --prompt 512 --completion 512
part 45 "update step, 8 replies of 256 tokens to a prompt of 32" \
    "$python" -m bench.real_model_step --model "$model" --rows 8 --prompt 32 --completion 256 --profile
[ -n "$problems" ] || exit $failed

online() {  # online NAME FLAGS...: three online steps of 128 programs, and the largest memory of the GPU meanwhile
    local name=$1 most=0 used training
    shift
    "$python" -m grpo_training.train --config grpo_training/configs/mbpp_online.yaml --model-name-or-path "$model" \
        --dataset "$problems" --max-steps 3 --gradient-accumulation-steps 2 \
        --output-dir "outputs/gpu_check/$name" --fresh "$@" &
    training=$!
    trap "kill -9 $training 2>/dev/null" EXIT  # a training that is late must not share the GPU with the next part
    while kill -0 "$training" 2>/dev/null; do
        used=$(nvidia-smi --query-gpu=memory.used --format=csv,noheader,nounits -i "${CUDA_VISIBLE_DEVICES%%,*}")
        most=$((used > most ? used : most))
        sleep 1
    done
    wait "$training" || return
    echo "$name: at most $most MiB of the GPU in use"
    tail -n 1 "outputs/gpu_check/$name/metrics.jsonl"
}
export -f online
export python model problems
part 60 "online, transformers" bash -c 'online transformers'
part 60 "online, transformers, a step ahead" bash -c 'online ahead --steps-ahead 1'
if "$python" -c 'import vllm' 2>/dev/null; then
    part 85 "online, vLLM in the process" bash -c 'online vllm --use-vllm --vllm-mode colocate'
    part 85 "online, vLLM that sleeps while weights are trained" \
        bash -c 'online sleeping --use-vllm --vllm-mode colocate --vllm-enable-sleep-mode'
fi
exit $failed
