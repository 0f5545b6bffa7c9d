"""Redis with TLS and a certificate of a private authority, on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentic.wire.connection import RedisConnection, StateUnavailable
from tests.support.redis_group import tls_redis
from tests.support.redis_server import PATIENT


@pytest.mark.promise(182)
async def test_the_address_names_a_private_authority_and_no_other_certificate_is_accepted(tmp_path: Path) -> None:
    with tls_redis(tmp_path) as (port, authority):
        async with RedisConnection(
            f"rediss://127.0.0.1:{port}/0?ssl_ca_certs={authority}", command_timeout=PATIENT
        ) as link:
            assert await link.call(lambda redis: redis.set("key", "value"))
            assert await link.script("return redis.call('GET', KEYS[1])", ["key"]) == "value"
        async with RedisConnection(f"rediss://127.0.0.1:{port}/0", command_timeout=PATIENT) as link:
            with pytest.raises(StateUnavailable, match="certificate can't be verified"):
                await link.call(lambda redis: redis.get("key"))
        async with RedisConnection(
            f"rediss://localhost:{port}/0?ssl_ca_certs={authority}", command_timeout=PATIENT
        ) as link:
            with pytest.raises(StateUnavailable):  # the certificate is for 127.0.0.1
                await link.call(lambda redis: redis.get("key"))
