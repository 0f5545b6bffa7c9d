"""One turn with all that is kept of it, the agents' days, and the state of the file."""

from contextlib import closing

from support.records import NOW, SHOWCASE, SHOWCASE_TOPIC, fill

from agentic.record.database import connect_blocking
from agentic.record.queries.posts import picture_of, posts_of_conversation
from agentic.record.queries.statistics import FAILURES, file_state, model_speeds, outcomes_by_agent, reactions_received
from agentic.record.queries.turns import turns_of_conversation, whole_turn

TODAY = "2026-11-22"


def changed(tmp_path, *statements):
    path = tmp_path / "record.db"
    fill(path, 40, days=2)
    with closing(connect_blocking(path, writable=True)) as connection:
        for sql, values in statements:
            connection.execute(sql, values)
    return path


async def test_a_turn_comes_with_its_calls_words_posts_and_conversation(db):
    whole = await whole_turn(db, "gemini", "showcase-5")
    assert whole.turn.image
    assert whole.turn.phases.model > 0
    assert [call.record.kind for call in whole.calls] == ["text", "picture"]
    assert whole.calls[0].words.persona.startswith("You are gemini")
    assert (whole.calls[1].words, whole.calls[1].removed) == (None, None)
    (post,) = whole.posts
    assert (post.text, post.picture) == (SHOWCASE[5][1], "image/png")
    assert {reaction.emoji for reaction in post.reactions} == {"🍅", "👀"}
    assert (await picture_of(db, post.message_id)).data.startswith(b"\x89PNG")
    assert whole.conversation.topic == SHOWCASE_TOPIC
    assert whole.conversation.agents == ("chatgpt", "claude", "gemini", "grok")


async def test_a_turn_names_those_of_its_round_that_were_skipped_before_it(tmp_path, opened):
    skip = "UPDATE turns SET outcome = 'skipped', reason = 'cooldown' WHERE id = ?"
    path = changed(tmp_path, (skip, ["showcase-0"]), (skip, ["showcase-5"]), (skip, ["showcase-7"]))
    db = await opened(path)
    skipped = (await whole_turn(db, "claude", "showcase-6")).skipped
    assert [(turn.agent, turn.reason) for turn in skipped] == [("gemini", "cooldown")]


async def test_removed_and_damaged_words_say_so(tmp_path, opened):
    path = changed(
        tmp_path,
        ("UPDATE words SET data = NULL, removed = 'forgotten' WHERE turn_id = ?", ["showcase-1"]),
        ("UPDATE words SET data = ? WHERE turn_id = ?", [b"no zlib", "showcase-2"]),
    )
    db = await opened(path)
    for turn, agent, removed in (("showcase-1", "grok", "forgotten"), ("showcase-2", "claude", "unreadable")):
        (call,) = (await whole_turn(db, agent, turn)).calls
        assert (call.words, call.removed) == (None, removed)


async def test_a_conversation_has_its_turns_and_posts_in_order(db):
    assert [turn.id for turn in await turns_of_conversation(db, "showcase")] == [f"showcase-{n}" for n in range(8)]
    assert [post.text for post in await posts_of_conversation(db, "showcase")] == [text for _, text, _ in SHOWCASE]


async def test_agents_have_their_outcomes_failures_and_latency(db):
    agents = await outcomes_by_agent(db, "2026-01-01", TODAY)
    assert sum(sum(outcomes.values()) for outcomes in agents.values()) == 3000
    assert 0 < sum(agents["grok"].get(name, 0) for name in FAILURES) < agents["grok"]["posted"] / 10
    for speed in await model_speeds(db, "2026-01-01", TODAY):
        assert 0 < speed.mean <= speed.p95
    texts = [speed for speed in await model_speeds(db, "2026-01-01", TODAY) if speed.kind == "text"]
    assert sum(speed.calls + sum(speed.errors.values()) for speed in texts) == 3000
    assert set(texts[0].errors) == {"ProviderError", "TimedOut"}


async def test_reactions_are_counted_for_the_agent_that_got_them(db):
    given = {(agent, emoji): count for agent, emoji, count in await reactions_received(db, NOW - 1800)}
    assert given["grok", "😂"] == 7
    assert given["grok", "💀"] == 4
    assert ("claude", "💀") not in given


async def test_the_state_of_the_file_has_what_it_holds_and_what_was_lost(tmp_path, opened):
    db = await opened(changed(tmp_path, ("INSERT INTO positions VALUES ('agent:grok:turns', '1-1', 9, 4)", [])))
    state = await file_state(db)
    assert state.counts["turns"] == 40
    assert state.bytes > 100_000
    assert state.oldest < state.newest < NOW
    assert state.dropped == {"agent:grok:turns": 4}
