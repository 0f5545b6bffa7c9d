"""Redis behind Sentinels: the address, and a failover between real servers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from agentic.wire.bus import Bus
from agentic.wire.connection import RedisAddressError, RedisConnection, StateUnavailable, sentinel_client
from agentic.wire.server import without_password
from tests.support.redis_group import WatchedRedis
from tests.support.redis_server import PATIENT, until

FAILOVER_SECONDS = 20.0


def made(address: str) -> tuple[list[tuple[str, int]], str, dict[str, object]]:
    """The Sentinels of a client, the master's name, what each connection is opened with."""
    pool = sentinel_client(address).connection_pool
    places = [each.connection_pool.connection_kwargs for each in pool.sentinel_manager.sentinels]
    return [(place["host"], place["port"]) for place in places], pool.service_name, pool.connection_kwargs


def test_an_address_names_several_sentinels_the_master_and_its_database() -> None:
    places, name, opened = made("redis+sentinel://one,two.lan:26380,[::1]:26381/bots/3")
    assert places == [("one", 26379), ("two.lan", 26380), ("::1", 26381)]
    assert (name, opened["db"]) == ("bots", 3)
    assert not {"host", "port"} & opened.keys(), "the Sentinels know the master's"


def test_the_server_and_the_sentinels_have_logins_of_their_own_and_share_certificates() -> None:
    options = "sentinel_username=watch&sentinel_password=s%26p&ssl_ca_certs=/etc/ca.pem"
    pool = sentinel_client(f"rediss+sentinel://me:p%40w@one/bots?{options}").connection_pool
    opened, watching = pool.connection_kwargs, pool.sentinel_manager.sentinels[0].connection_pool.connection_kwargs
    assert (opened["username"], opened["password"]) == ("me", "p@w")
    assert (watching["username"], watching["password"]) == ("watch", "s&p")
    assert opened["ssl_ca_certs"] == watching["ssl_ca_certs"] == "/etc/ca.pem"
    assert "SSL" in pool.connection_class.__name__
    assert "SSL" in pool.sentinel_manager.sentinels[0].connection_pool.connection_class.__name__


@pytest.mark.parametrize("options", ["db=abc", "s3cret=s3cret", "protocol=9"])
def test_an_address_with_unknown_options_is_refused_without_being_shown(options: str) -> None:
    with pytest.raises(RedisAddressError) as caught:
        RedisConnection(f"redis+sentinel://:s3cret@127.0.0.1:1/bots?{options}")
    assert "s3cret" not in str(caught.value)


def test_an_address_is_shown_without_its_passwords() -> None:
    shown = without_password("redis+sentinel://me:s3cret@one:1,two:2/bots/0?sentinel_password=s3cret")
    assert shown == "redis+sentinel://one:1,two:2/bots/0"


@pytest.mark.promise(181)
async def test_without_a_sentinel_redis_is_away() -> None:
    async with RedisConnection("redis+sentinel://127.0.0.1:1/bots") as link:
        with pytest.raises(StateUnavailable, match="no Sentinel has a master 'bots'"):
            await link.call(lambda redis: redis.get("key"))


@pytest.mark.promise(181)
async def test_after_a_failover_commands_and_subscriptions_go_on_with_the_new_master(tmp_path: Path) -> None:
    with WatchedRedis(tmp_path) as servers:
        async with RedisConnection(servers.url, command_timeout=PATIENT) as link, asyncio.TaskGroup() as tasks:
            bus, heard = Bus(link), list[str]()
            bus.subscribe("news", heard.append)
            listening = tasks.create_task(bus.run())
            await asyncio.wait_for(bus.ready.wait(), FAILOVER_SECONDS)
            await link.call(lambda redis: redis.set("key", "value"))
            await link.call(lambda redis: redis.wait(1, 1_000))  # replication is asynchronous
            servers.kill_master()
            with pytest.raises(StateUnavailable):
                await link.call(lambda redis: redis.get("key"))
            await asyncio.wait_for(link.present.wait(), FAILOVER_SECONDS)
            assert await link.call(lambda redis: redis.get("key")) == "value"
            await asyncio.wait_for(bus.ready.wait(), FAILOVER_SECONDS)
            assert await link.call(lambda redis: redis.publish("news", "from the new master")) == 1
            await until(lambda: heard == ["from the new master"])
            listening.cancel()
