#!/usr/bin/env bash
# Four ways into the project as a new user goes them, in a fresh clone with the pocket model: own CSV to a verdict, reading a
# run, own reward to a training, own task through every command. Fails at the first command that fails or shows no result.
# `make first-hour` runs it after scripts/first_hour.sh. It is not one of the tests: it runs a model for minutes.
#
# usage: scripts/walks.sh [FOLDER]     FOLDER keeps the outputs (default: a temporary one)
# VENV=PATH uses an installed environment; without it `make finetune` installs one in the clone.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(realpath "${1:-$(mktemp -d)}")
mkdir -p "$work"
git clone --quiet "$root" "$work/project"
cd "$work/project"
if [ -n "${VENV:-}" ]; then
    ln -s "$VENV" .venv
    export PYTHONPATH="$PWD"
else
    make finetune
fi
# shellcheck disable=SC1091
source .venv/bin/activate

walk() { # walk NAME
    echo
    echo "== $1"
}
run() { # run COMMAND WORD...: shows the command and the end of what it prints
    local began=$SECONDS
    echo "\$ python -m grpo_training.$*"
    python -m "grpo_training.$1" "${@:2}" > "$work/last.txt" 2>&1 < /dev/null || {
        tail -30 "$work/last.txt"
        echo "failed" >&2
        exit 1
    }
    tail -4 "$work/last.txt" | sed 's/^/    /'
    echo "    [$((SECONDS - began)) s]"
}
shows() { # shows PATTERN: the last command has printed it
    grep -qE -- "$1" "$work/last.txt" || {
        tail -30 "$work/last.txt"
        echo "the output does not have: $1" >&2
        exit 1
    }
}

walk "own CSV to a verdict"
python - << 'PYTHON'
import csv

from engine.datasets import load_problems

with open("trains.csv", "w", newline="") as file:
    rows = csv.writer(file)
    rows.writerow(["question", "result"])
    rows.writerows([problem.text, problem.answer] for problem in load_problems("quickstart", max_problems=24))
PYTHON
run improve --dataset trains.csv --fields answer=result --endpoint local --run trains --dry-run
shows 'The first prompt'
run improve --dataset trains.csv --fields answer=result --endpoint local --run trains --epochs 3
shows 'With [0-9]+ experiences|No improvement could be shown|nothing was learned'
python -c 'import grpo_training; print(grpo_training.Improved.load("runs/trains/improved").messages("What is 2 + 2?"))' |
    grep -q 'What is 2 + 2'

walk "reading a run"
run experiences --run trains
shows 'G1-001'
run experiences show g1-001 --run trains
run show --run trains trains_001
shows 'r_total|right'
run view --run trains --export report.html
grep -q '<html' report.html

walk "own reward to a training"
cat > rewards.py << 'PYTHON'
def short(completions, **kwargs):
    """Pays replies that are short."""
    texts = [one if isinstance(one, str) else one[-1]["content"] for one in completions]
    return [1 / (1 + len(text) / 200) for text in texts]
PYTHON
run train --config grpo_training/configs/pocket.yaml --mode online --reward rewards.py:short --dataset quickstart \
    --max-problems 16 --max-steps 3 --output-dir outputs/short --dry-run
run train --config grpo_training/configs/pocket.yaml --mode online --reward rewards.py:short --dataset quickstart \
    --max-problems 16 --max-steps 3 --output-dir outputs/short
test -s outputs/short/merged/model.safetensors

walk "own task through every command"
task=(--task examples/sort_words.py:TASK)
run generator1 "${task[@]}" --dataset sort_words --max-problems 12 --rollouts 4 --endpoint local --temperature 1 \
    --max-tokens 64 --run words
shows 'an answer counts as right if exact is 1'
run critic --run words --generators 1 --learn none --endpoint local --max-tokens 64
run experiences --run words
run show --run words sort_words_001
run evaluate "${task[@]}" --model-path data/models/pocket --dataset sort_words --max-problems 8 --num-samples 2 \
    --k-values 1 --max-tokens 64 --output outputs/words.json
shows 'pass@'
run view --run words --export words.html
run train --dataset-path runs/words/cache --model-path data/models/pocket --zero-variance keep --dry-run --output-dir outputs/w
shows "first prompt"

echo
echo "All walks have ended in $SECONDS s. Outputs: $work"
