"""Which personas a process hosts, and where one may speak; among doubles."""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from agentic.agent.persona import Personas
from agentic.agent.roster import Roster
from agentic.inbox import host as hosts
from agentic.inbox.host import HostedChannels, PersonaHosts
from agentic.services.discord.channels import Audience
from agentic.services.discord.service import PersonaChannels
from agentic.state.leases import ALWAYS_HELD
from agentic.state.limits import UNLIMITED
from agentic.state.silence import Scope
from agentic.wire import keys
from agentic.wire.connection import StateUnavailable
from tests.support.agent_scene import DEBATE, ELSEWHERE, THREAD, Model, Scene
from tests.support.doubles import settle


class Asked(Model):
    """A model that is closed once."""

    closed = 0

    async def aclose(self):
        self.closed += 1


def write(folder, key, text=""):
    (folder / key).mkdir(parents=True, exist_ok=True)
    (folder / key / "identity.md").write_text(text)


class NoBackoffs:
    async def share(self, agent, until):
        assert until == 0.0, "no provider refused anything"
        return until


class Stage:
    """A bot, the personas of a folder, and what hosts them."""

    def __init__(self, tmp_path):
        self.folder = tmp_path / "who"
        env = {"PERSONAS_DIR": str(self.folder), "BOT_TOKEN_CLAUDE": "t", "ANTHROPIC_API_KEY": "k"}
        self.scene = Scene("claude", env=env)
        settings, services = self.scene.settings, self.scene.services
        self.scene.state.coordination.backoffs = NoBackoffs()
        self.roster = Roster(settings, services.chats.directory, services.state.coordination.presence, self.folder)
        agents = replace(services.agents, roster=self.roster, personas=Personas(settings))
        self.services = replace(services, agents=agents)
        self.models: dict[str, Any] = {}
        self.bots = [self.scene.cog.channels]
        self.hosts = PersonaHosts(self.services, self.make_model, self.channels_of, prepare=self.prepare)
        self.prepared: list[str | Exception] = []  # an error is raised, once

    async def prepare(self, key):
        if self.prepared and isinstance(error := self.prepared[-1], Exception):
            self.prepared.append("")
            raise error
        self.prepared.append(key)

    def channels_of(self, persona):
        if not self.bots:
            return None
        always = {"arriving": lambda: False, "lease": ALWAYS_HELD}
        rooms = PersonaChannels(persona, self.services, lambda: self.bots, **always)
        return HostedChannels(rooms, Audience(rooms.channel_of), ALWAYS_HELD)

    def make_model(self, settings):
        model: Any = Asked(False, settings.models[0].name)
        self.models[settings.name] = model
        return model

    async def look(self):
        """As the roster does every few seconds."""
        await self.roster.refresh()
        self.hosts._follow()
        await settle()

    def hears(self, key):
        return keys.instructions(key) in self.scene.bus.handlers


@asynccontextmanager
async def stage(tmp_path, **personas):
    for key, text in personas.items():
        write(tmp_path / "who", key, text)
    made = Stage(tmp_path)
    yield made
    await made.hosts.aclose()
    await made.scene.aclose()


async def test_personas_are_hosted_once_a_bot_is_there_to_see_by(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "LOOK_SECONDS", 0.01)
    async with stage(tmp_path, poet="") as s:
        s.bots.clear()
        running = asyncio.create_task(s.hosts.run())
        await settle()
        assert s.hosts.names == ()
        s.bots.append(s.scene.cog.channels)
        async with asyncio.timeout(5):
            while s.hosts.names != ("poet",):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert s.hears("poet")
        running.cancel()


async def test_a_persona_waits_for_a_redis_that_is_away(tmp_path, caplog):
    async with stage(tmp_path, poet="") as s:
        s.prepared.append(StateUnavailable("no answer in time"))
        await s.look()
        assert s.hosts.names == ()
        await s.look()
        assert (s.hosts.names, s.prepared[-1]) == (("poet",), "poet")
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_changed_persona_is_hosted_anew_and_a_deleted_one_no_more_and_their_models_are_closed(tmp_path):
    async with stage(tmp_path, poet="") as s:
        await s.look()
        first = s.models["poet"]
        await s.look()
        assert s.models["poet"] is first, "nothing has changed"
        write(s.folder, "poet", "---\nmodel: anthropic/claude-opus-5-5\n---\n")
        await s.look()
        assert (first.closed, s.models["poet"].name, s.hears("poet")) == (1, "anthropic/claude-opus-5-5", True)
        (s.folder / "poet" / "identity.md").unlink()
        await s.look()
        assert (s.hosts.names, s.hears("poet"), s.models["poet"].closed) == ((), False, 1)


async def test_why_a_persona_takes_no_part_is_logged_once(tmp_path, caplog):
    async with stage(tmp_path, poet="---\nprovider: xai\n---\n") as s:
        with caplog.at_level(logging.WARNING):
            await s.look()
            await s.look()
        assert caplog.messages == ["poet can't join rooms: XAI_API_KEY isn't set, and xai/grok-4.7 needs it"], (
            "and nothing of the bots without token and key"
        )


async def test_on_signal_alone_nobody_is_missing_from_rooms(tmp_path, caplog):
    async with stage(tmp_path, poet="---\nprovider: xai\n---\n") as s:
        s.hosts._services = replace(s.hosts._services, settings=s.hosts._services.settings.with_(channel="signal"))
        await s.look()
        assert not any("rooms" in text for text in caplog.messages)


async def test_a_persona_has_neither_cooldown_nor_daily_limit_nor_companions_outside_of_its_room(tmp_path):
    async with stage(tmp_path, poet="---\ndisplay_name: Orpheus\n---\n") as s:
        await s.look()
        agent = s.hosts._hosts["poet"].host.agent
        limits = agent.limits
        assert (limits.cooldown, limits.daily_max, limits.proactive_max) == (0.0, UNLIMITED, UNLIMITED)
        assert (agent.me.display_name, agent.me.others) == ("Orpheus", ())
        assert agent.names["poet"] == "Orpheus"


async def test_a_persona_whose_task_fails_starts_again(tmp_path, monkeypatch, caplog):
    async with stage(tmp_path, poet="") as s:
        monkeypatch.setattr("agentic.inbox.host.AgentHost.run_catch_up", fails)
        await s.look()
        monkeypatch.undo()
        first = s.hosts._hosts["poet"]
        await s.look()
        assert s.hosts._hosts["poet"] is not first
        assert s.hosts._hosts["poet"].failure is None
        assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
            "poet failed; restarting it"
        ]


async def fails(_):
    raise RuntimeError("a fault")


async def test_it_speaks_in_threads_of_the_bots_channels_and_nowhere_else(tmp_path):
    async with stage(tmp_path, poet="") as s:
        poet = s.roster.of("poet").settings
        channels = PersonaChannels(poet, s.services, lambda: s.bots, arriving=lambda: False, lease=ALWAYS_HELD)
        outlets = [await channels.outlet_in_scope(place) for place in (THREAD, DEBATE, ELSEWHERE, 999)]
        assert [outlet is not None for outlet in outlets] == [True, False, False, False]
        assert (outlets[0].view.own_name, outlets[0].view.own_ids) == ("Poet", frozenset())
        assert (channels.own_id(THREAD), channels.known(), channels.view_of(THREAD)) == (None, (), None)
        assert channels.outlet_of(DEBATE).view.own_name == "Claude", "notices to the owner are the bot's"
        assert not s.services.silence.check(channels.place(THREAD))
        await s.services.silence.stop(Scope.channel(channels.place(THREAD).parent_id), source="an order")
        assert s.services.silence.check(channels.place(THREAD))


async def test_a_bot_that_is_still_on_its_way_is_waited_for(tmp_path):
    async with stage(tmp_path, poet="") as s:
        poet, late = s.roster.of("poet").settings, s.bots.pop()
        channels = PersonaChannels(poet, s.services, lambda: s.bots, arriving=lambda: not s.bots, lease=ALWAYS_HELD)
        looking = asyncio.create_task(channels.outlet_in_scope(THREAD))
        await settle()
        assert not looking.done()
        s.bots.append(late)
        assert (await looking).view.channel_id == THREAD


async def test_without_a_bot_it_sees_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("agentic.services.discord.service.GUILD_WAIT", 0.01)
    async with stage(tmp_path, poet="") as s:
        poet = s.roster.of("poet").settings
        channels = PersonaChannels(poet, s.services, list, arriving=lambda: True, lease=ALWAYS_HELD)
        assert await channels.outlet_in_scope(THREAD) is None
        assert (channels.outlet_of(THREAD), channels.channel_of(THREAD), channels.arriving) == (None, None, True)
