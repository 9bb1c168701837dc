# Images of Scaffold-GRPO. constraints.txt is the lock: every package has the version that the tests ran with.
#
#   docker build --target cpu  -t scaffold-grpo:cpu .
#   docker build --target cuda -t scaffold-grpo:cuda .     # needs the NVIDIA container toolkit to run
#
# The sandbox for untrusted programs uses user namespaces. Where Docker's default seccomp profile forbids them, the
# sandbox takes its weaker level (see `doctor`); `--security-opt seccomp=unconfined` permits the stronger ones.

FROM python:3.11-slim-bookworm AS base
RUN apt-get update \
    && apt-get install -y --no-install-recommends bubblewrap nodejs npm \
    && rm -rf /var/lib/apt/lists/*
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1 RAY_USAGE_STATS_ENABLED=0
WORKDIR /opt/scaffold-grpo
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY agents agents
COPY engine engine
COPY grpo_training grpo_training
COPY prompts prompts
COPY data data

FROM base AS cpu
RUN pip install --constraint constraints.txt --index-url https://download.pytorch.org/whl/cpu torch \
    && pip install --constraint constraints.txt --editable '.[finetune,traffic,ray]' \
    && npm ci --prefix engine/tasks/phaser/node --no-audit --no-fund
WORKDIR /work
ENTRYPOINT ["scaffold-grpo"]

# The wheel of torch on PyPI brings CUDA with it; the machine gives the driver.
FROM base AS cuda
RUN pip install --constraint constraints.txt --editable '.[finetune,traffic,ray]' \
    && npm ci --prefix engine/tasks/phaser/node --no-audit --no-fund
WORKDIR /work
ENTRYPOINT ["scaffold-grpo"]
