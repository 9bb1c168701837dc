#!/bin/bash
# A generator on several nodes of a SLURM cluster: one Ray node per machine, and the command on the first of them.
#
#   sbatch --nodes 4 examples/cluster/slurm.sh --base-url http://llm.example:8000/v1 --model NAME --dataset aime2024
#
# What follows the name of the script goes to the generator. Each node needs this project at the same path; the API key
# comes from the environment of the shell that calls sbatch. COMMAND, PYTHON, RAY_PORT and HEAD_ADDRESS may be set.
#SBATCH --job-name=scaffold-grpo
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=8
#SBATCH --time=04:00:00
#SBATCH --output=scaffold-grpo-%j.log
#SBATCH --signal=B:TERM@120
set -euo pipefail

command=${COMMAND:-generator1}
python=${PYTHON:-.venv/bin/python}
ray="$(dirname "$python")/ray"
port=${RAY_PORT:-$((20000 + SLURM_JOB_ID % 10000))}  # jobs that share a node, or follow each other, need their own
cpus=${SLURM_CPUS_PER_TASK:-8}
export RAY_USAGE_STATS_ENABLED=0
# Only the processes of this job may use its cluster; srun passes the token on in the environment.
export RAY_AUTH_MODE=token
RAY_AUTH_TOKEN=$("$python" -c 'import secrets; print(secrets.token_hex(32))')
export RAY_AUTH_TOKEN

mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
# SLURM runs this script on the first node. Debian's /etc/hosts has 127.0.1.1 for its name, which others cannot reach.
read -ra addresses <<<"$(hostname --ip-address) $(hostname --all-ip-addresses)"
address=${HEAD_ADDRESS:-$(printf '%s\n' "${addresses[@]}" | grep -v '^127\.' | head -1)}

# srun does not take the CPUs per task from sbatch. --block keeps `ray start` in the foreground, so that SLURM ends it
# with the job.
on_node=(srun --nodes=1 --ntasks=1 --cpus-per-task="$cpus" --overlap -w)
"${on_node[@]}" "${nodes[0]}" \
    "$ray" start --head --node-ip-address="$address" --port="$port" --num-cpus="$cpus" \
    --include-dashboard=false --block &
head_step=$!
trap 'kill $(jobs -p) 2>/dev/null || true' EXIT
for _ in {1..120}; do
    "$ray" health-check --address "$address:$port" 2>/dev/null && break
    kill -0 "$head_step" 2>/dev/null || { echo "Ray did not start on ${nodes[0]}" >&2; exit 1; }
    sleep 1
done

for node in "${nodes[@]:1}"; do
    "${on_node[@]}" "$node" "$ray" start --address="$address:$port" --num-cpus="$cpus" --block &
done

# The command runs in the batch script, which SLURM starts on the first node. It waits for nodes that join later.
# SIGTERM, which SLURM sends two minutes before the end (--signal), ends it in order; the same job goes on from there.
"$python" -m "grpo_training.$command" --scoring ray --ray-address "$address:$port" "$@" &
run=$!
trap 'kill -TERM $run 2>/dev/null || true' TERM
code=0
wait "$run" || code=$?
if kill -0 "$run" 2>/dev/null; then wait "$run" || code=$?; fi  # the trap has ended the first wait
exit "$code"
