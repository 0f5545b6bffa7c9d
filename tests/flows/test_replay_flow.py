"""A conversation of the scripted voices, recorded by the whole program, and made again from the record alone."""

import asyncio
import json
import random

from agentic.local.voices.voice import ScriptedVoice
from agentic.record.__main__ import build_parser
from agentic.replay.command import recorded_turns, replay
from tests.support.flow import flow


async def all_recorded(settings, options, calls):
    turns = await recorded_turns(settings.record_file, options)
    return sum(len(turn.calls) for turn in turns) == calls and not any(turn.gone for turn in turns)


async def test_a_recorded_conversation_of_scripted_voices_is_answered_again_to_the_byte(tmp_path, capsys):
    def voice(agent):
        return ScriptedVoice(agent.name, rng=random.Random(agent.name), remedy="set a key")

    async with flow(tmp_path, COORDINATOR_MAX_ROUNDS="2") as f, f.running(make_model=voice) as runtime:
        await f.discord.say("Alice", "debate", f"<@{f.user_id('claude')}> tea or coffee?")
        await f.discord.wait_for(lambda: f.said("debate", "claude"))
        report = await runtime.coordinator.start_conversation(f.channel("debate"))
        options = build_parser().parse_args(["replay", "--conversation", report.id, "--json"])
        async with asyncio.timeout(30):
            while not await all_recorded(f.settings, options, report.counts.total.calls):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await replay(options, f.settings) == 0
    answers = json.loads(capsys.readouterr().out)
    assert answers["totals"]["new"]["calls"] == report.counts.total.calls > 3
    assert [turn["turn_id"] for turn in answers["turns"] if not turn["same"]] == []
    assert answers["totals"]["old"] == answers["totals"]["new"], "the prompts were as long as they were"
