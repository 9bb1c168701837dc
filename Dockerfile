# Images of Scaffold-GRPO. constraints.txt is the lock: every package has the version that the tests ran with.
#
#   docker build --target cpu  -t scaffold-grpo:cpu .
#   docker build --target cuda -t scaffold-grpo:cuda .     # needs the NVIDIA container toolkit to run
#
# docs/how-to/container.md says how to run them, and with which options the sandbox has its strongest level.
# --build-arg PACKAGES=chromium-headless-shell adds Debian packages; the task `phaser` runs games in Chromium.

# Debian 13, as the Phaser tools need Node.js 20.
FROM python:3.11-slim-trixie AS base
ARG PACKAGES=""
# The libraries are those that SUMO's wheels need and do not bring.
RUN apt-get update \
    && apt-get install -y --no-install-recommends \
        bubblewrap nodejs libatomic1 libgl1 libx11-6 libxext6 libxrender1 $PACKAGES \
    && rm -rf /var/lib/apt/lists/*
ENV PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PYTHONUNBUFFERED=1 RAY_USAGE_STATS_ENABLED=0
# Any user may run it (--user). Users without an entry in /etc/passwd have no home, which Ray and the hub's cache need.
ENV HOME=/work
RUN mkdir --mode=1777 /work

# npm and the 370 packages it needs stay in this stage.
FROM base AS phaser
RUN apt-get update && apt-get install -y --no-install-recommends npm
WORKDIR /phaser
COPY engine/tasks/phaser/node/package.json engine/tasks/phaser/node/package-lock.json ./
RUN npm ci --no-audit --no-fund

FROM base AS project
WORKDIR /opt/scaffold-grpo
COPY --from=phaser /phaser/node_modules engine/tasks/phaser/node/node_modules
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY engine engine
COPY grpo_training grpo_training
COPY prompts prompts
COPY data data

FROM project AS cpu
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
RUN pip install --constraint constraints.txt --no-deps --index-url "$TORCH_INDEX" torch \
    && pip install --constraint constraints.txt --editable '.[local,finetune,traffic,ray]'
WORKDIR /work
ENTRYPOINT ["scaffold-grpo"]

# The wheel of torch on PyPI brings CUDA with it; the machine gives the driver.
FROM project AS cuda
RUN pip install --constraint constraints.txt --editable '.[local,finetune,traffic,ray]'
WORKDIR /work
ENTRYPOINT ["scaffold-grpo"]
