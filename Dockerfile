# Root owns the code, which is read-only. compose.yaml mounts the owner's files: .env, config/, personas/, and data/.
FROM python:3.13-slim-trixie

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

# Without compose.yaml's Redis, as with --local, the program starts this one and keeps its data in /app/data.
RUN apt-get update \
    && apt-get install -y --no-install-recommends redis-server \
    && rm -rf /var/lib/apt/lists/*

# The requirements in pyproject.toml. For the coding agent, build with --build-arg "EXTRAS=[agent-sdk]".
ARG EXTRAS=""
COPY pyproject.toml README.md LICENSE /tmp/project/
RUN pip install "/tmp/project$EXTRAS" && rm -r /tmp/project

WORKDIR /app
COPY . .
RUN python -m compileall -q . \
    && useradd --uid 1000 --no-create-home agents \
    && install -d -o agents -g agents -m 0700 data

USER agents
# An answer on the container's loopback means that the program runs. /readyz says whether it's able to work.
ENV HEALTH_PORT=8080
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["python", "-m", "agentic.runtime.health"]
CMD ["python", "run_all.py"]
