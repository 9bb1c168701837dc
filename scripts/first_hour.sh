#!/usr/bin/env bash
# Does what a new user does: clones the project and types the commands of README.md's section "First result" into a
# terminal of 80x24, one after the other. Fails if a command fails, takes too long, or there is no result.
# `make first-hour` runs it. It is not one of the tests: it installs packages from the network and runs a model for minutes.
#
# usage: scripts/first_hour.sh [FOLDER]     FOLDER keeps the screens (default: a temporary one)
# VENV=PATH uses an installed environment: `make` is then not run, and nothing is installed into it.
# LIMIT_S: seconds for a command (default 1800).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(realpath "${1:-$(mktemp -d)}")
socket="first-hour-$$"
mkdir -p "$work/screens"
trap 'tmux -L "$socket" kill-server 2>/dev/null || true' EXIT

git clone --quiet "$root" "$work/project"
if [ -n "${VENV:-}" ]; then
    ln -s "$VENV" "$work/project/.venv"
fi

# The commands: the bash block of the section that needs no key, continued lines joined, comments removed.
mapfile -t commands < <(sed -n '/^## First result/,/^## How/p' "$work/project/README.md" |
    awk '/^```bash/ { block = ""; inside = 1; next }
         /^```$/ { if (inside && block ~ /--endpoint local/) printf "%s", block; inside = 0 }
         inside { block = block $0 "\n" }' |
    sed -e ':a' -e '/\\$/N; s/ *\\\n */ /; ta' | sed -E 's/ +# .*//' | grep -v '^ *$' |
    if [ -n "${VENV:-}" ]; then sed 's/^make [a-z]* && //'; else cat; fi)
[ "${#commands[@]}" -ge 2 ] || { echo "no commands found in README.md" >&2; exit 1; }

# The prompt reports the exit code of each command to a file.
printf 'PS1="$ "\nPROMPT_COMMAND='\''echo $? >> "%s/codes"'\''\n' "$work" > "$work/bashrc"
env -u VIRTUAL_ENV PYTHONPATH="${VENV:+$work/project}" \
    tmux -L "$socket" -f /dev/null new-session -d -x 80 -y 24 -c "$work/project" "bash --rcfile '$work/bashrc' -i"
touch "$work/codes"
count() { wc -l < "$work/codes"; }
await() { # await NUMBER_OF_CODES
    for ((waited = 0; waited < ${LIMIT_S:-1800} * 2; waited++)); do
        [ "$(count)" -ge "$1" ] && return
        sleep 0.5
    done
    tmux -L "$socket" capture-pane -p -t 0
    echo "still running after ${LIMIT_S:-1800} s" >&2
    exit 1
}

await 1
began=$SECONDS
for ((number = 0; number < ${#commands[@]}; number++)); do
    echo "[$((SECONDS - began)) s] ${commands[number]}"
    tmux -L "$socket" send-keys -t 0 -l "${commands[number]}"
    tmux -L "$socket" send-keys -t 0 Enter
    await $((number + 2))
    tmux -L "$socket" capture-pane -p -t 0 > "$work/screens/$number.txt"
    code=$(tail -1 "$work/codes")
    [ "$code" = 0 ] || { cat "$work/screens/$number.txt"; echo "exit code $code" >&2; exit 1; }
done
cat "$work/screens/$((number - 1)).txt"
grep -qE 'points|No improvement' "$work/screens/$((number - 1)).txt"
grep . "$work"/project/runs/*/improved/result.json > /dev/null
echo "Result after $((SECONDS - began)) s. Screens: $work/screens"
