from __future__ import annotations

from dataclasses import replace
from typing import cast

import pytest
from support.records import CHANNELS, NOW, PEOPLE

from agentic.console.json_values import today
from agentic.console.parts import BotState, ConsoleContext, ModelPrice
from agentic.context.entries import Entry, Speaker
from agentic.personas.store import change
from agentic.record.recorder import OFF, RECORDING, STANDING_BY
from agentic.state.leases import Lease
from agentic.state.limits import free_day
from agentic.state.silence import Scope
from agentic.wire import keys
from tests.agentic.console.conftest import HOSTILE, Pages, pages_of
from tests.support.console import FakeChannels, csrf

CHANNEL = next(iter(CHANNELS))


async def test_a_card_says_whether_an_agent_is_online_and_what_hinders_it(parts: ConsoleContext) -> None:
    await parts.state.coordination.presence.renew("claude", "1")
    await parts.silence.stop(Scope.agent("gemini"), 600)
    await parts.state.coordination.backoffs.put("grok", NOW + 60)
    states = {
        "grok": BotState(failure="its token was refused"),
        "claude": BotState(latency=0.04),
        "gemini": BotState(accounts={"Signal": True}),
    }
    changed = replace(
        parts, bot=lambda name: states.get(name, BotState()), prices=lambda _: (ModelPrice("xai/grok-4.7", 2, 0.5, 6),)
    )
    async with pages_of(changed) as pages:
        cards = {card["agent"]: card for card in (await pages.get("/api/agents"))["items"]}
    assert {name: card["online"] for name, card in cards.items()} == {
        **{"chatgpt": False, "claude": True},
        **{"gemini": False, "grok": False},
    }
    assert (cards["gemini"]["muted_until"], cards["grok"]["backoff_until"]) == (NOW + 600, NOW + 60)
    assert (cards["grok"]["failure"], cards["claude"]["latency"]) == ("its token was refused", 0.04)
    assert (cards["gemini"]["accounts"], cards["claude"]["accounts"]) == ({"Signal": True}, {})
    assert cards["grok"]["models"][0]["output"] == 6
    assert sum(cards["grok"]["outcomes"].values()) > 0
    assert {error["outcome"] for error in cards["grok"]["errors"]} <= {"failed", "timed_out", "refused"}


async def test_free_turns_are_counted_beside_those_that_the_limit_counts(pages: Pages, parts: ConsoleContext) -> None:
    day = today(parts)
    for name in (day, free_day(day), free_day(day)):
        await parts.state.link.call(lambda redis, name=name: redis.incr(keys.daily_count("claude", name)))
    claude = await pages.get("/api/agents/claude")
    assert (claude["turns_today"], claude["turns_free"], claude["turns_most"]) == (1, 2, 100)


async def test_a_person_has_a_name_on_each_page_while_the_live_page_has_a_message_of_theirs(
    pages: Pages, parts: ConsoleContext
) -> None:
    mia, other = PEOPLE[:2]
    live = cast(FakeChannels, parts.live)
    turns = (await pages.get("/api/turns", person=str(mia)))["items"]
    asked = int(turns[0]["asked_message_id"] or 1)
    live.put(Entry(asked, Speaker(mia, HOSTILE, "person"), "Is it?", NOW), int(turns[0]["channel"]["id"]))
    assert {turn["asked_by_name"] for turn in (await pages.get("/api/turns", person=str(mia)))["items"]} == {HOSTILE}
    names = {row["person"]: row["name"] for row in (await pages.get("/api/costs"))["people"]}
    assert (names[str(mia)], names[str(other)]) == (HOSTILE, None)
    whole = await pages.get(f"/api/turns/{turns[0]['agent']}/{turns[0]['id']}")
    assert whole["asked_text"] == ("Is it?" if turns[0]["asked_message_id"] else None)


async def test_memory_names_who_caused_an_entry_and_the_turn_that_wrote_it(pages: Pages, parts: ConsoleContext) -> None:
    turn = (await pages.get("/api/turns", agent="claude", channel=str(CHANNEL), count="1"))["items"][0]
    folder = parts.settings.personas_dir / "claude"
    folder.mkdir(parents=True)
    entry = f"- {HOSTILE} <!-- channel:{CHANNEL} by:{PEOPLE[0]} -->\n"
    change(folder, "memory.md", lambda _: "- The owner's own.\n")
    change(folder, "memory.md", lambda old: f"{old}{entry}", clock=lambda: turn["at"] - 0.5)
    own, learned = (await pages.get("/api/agents/claude"))["memory"]
    assert (own["people"], own["channels"], own["turn"]) == ([], [], None)
    assert (learned["text"], learned["people"]) == (f"- {HOSTILE}", [{"person": str(PEOPLE[0]), "name": None}])
    assert (learned["channels"][0]["id"], learned["turn"]) == (str(CHANNEL), {"agent": "claude", "id": turn["id"]})


async def test_a_file_is_shown_with_its_changes(pages: Pages, parts: ConsoleContext) -> None:
    folder = parts.settings.personas_dir / "grok"
    folder.mkdir(parents=True)
    for text in ("Loud.\n", "Loud.\nAnd <b>brief</b>.\n"):
        change(folder, "soul.md", lambda _, text=text: text)  # type: ignore[misc]
    file = await pages.get("/api/agents/grok/files/soul.md")
    assert file["text"] == "Loud.\nAnd <b>brief</b>.\n"
    assert [line for line in file["changes"][0]["lines"] if line["sign"] == "+"] == [
        {"sign": "+", "text": "And <b>brief</b>."}
    ]
    assert (await pages.get("/api/agents/grok/files/tools.md"))["text"] is None


@pytest.mark.promise(138)
@pytest.mark.parametrize(
    "path", ["nobody", "..%2f..", "claude/files/.env", "claude/files/..%2f..%2f.env", "claude/files/%2fetc%2fpasswd"]
)
async def test_no_other_file_and_no_other_agent_can_be_asked_for(pages: Pages, path: str) -> None:
    assert (await pages.client.get(f"/api/agents/{path}")).status == 404


async def test_the_records_state_is_shown_and_whether_a_process_writes_it(pages: Pages, parts: ConsoleContext) -> None:
    record = await pages.get("/api/record")
    assert (record["days"], record["recorder"]) == (90, False)
    lease = Lease(parts.state.link, keys.RECORDER_OWNER, holder="here")
    assert await lease.acquire()
    assert (await pages.get("/api/record"))["recorder"] is True
    await lease.release()
    assert record["state"]["counts"]["turns"] >= 2000
    assert record["state"]["bytes"] > 0


async def test_a_full_disk_stands_on_the_page(parts: ConsoleContext) -> None:
    full = "record.db: the disk is full"
    for state, problem in ((full, full), (RECORDING, None), (OFF, None)):
        async with pages_of(replace(parts, recorder=lambda state=state: state)) as pages:  # type: ignore[misc]
            assert (await pages.get("/api/record"))["problem"] == problem


async def test_a_process_that_stands_by_says_that_the_record_is_elsewhere(parts: ConsoleContext) -> None:
    async with pages_of(replace(parts, recorder=lambda: STANDING_BY)) as pages:
        assert (await pages.get("/api/record"))["elsewhere"] is False, "nobody records"
        assert await Lease(parts.state.link, keys.RECORDER_OWNER, holder="there").acquire()
        assert (await pages.get("/api/record"))["elsewhere"] is True


async def test_an_owner_edits_a_file_unless_it_changed_or_has_problems(pages: Pages, parts: ConsoleContext) -> None:
    folder = parts.settings.personas_dir / "grok"
    folder.mkdir(parents=True)
    change(folder, "soul.md", lambda _: "Loud.\n")
    headers = await csrf(pages.client)

    async def save(file: str, text: str, digest: str, click: str) -> tuple[int, str]:
        body = {"id": f"click-{click}", "agent": "grok", "file": file, "text": text, "digest": digest}
        response = await pages.client.post("/api/actions/edit_file", json=body, headers=headers)
        answer = await response.json()
        return response.status, answer.get("text") or answer["error"]

    shown = await pages.get("/api/agents/grok/files/soul.md")
    saved = (200, "Saved Grok's soul.md. It takes effect with the next message.")
    assert await save("soul.md", "Quiet.", shown["digest"], "000001") == saved
    assert await save("soul.md", "Quiet.", shown["digest"], "000002") == saved, "the same text again changes nothing"
    status, why = await save("soul.md", "Other.", shown["digest"], "000003")
    assert (status, (folder / "soul.md").read_text()) == (409, "Quiet.\n")
    assert "someone changed the file in the meantime" in why
    now = await pages.get("/api/agents/grok/files/soul.md")
    assert [each["before"] for each in now["changes"]] == ["Loud.\n"]
    assert await save("soul.md", now["changes"][0]["before"], now["digest"], "000004") == saved
    linked = folder.with_name("claude")
    linked.mkdir()
    (linked / "soul.md").symlink_to(folder / "soul.md")  # as in local mode
    linked_file = await pages.get("/api/agents/claude/files/soul.md")
    assert len(linked_file["changes"]) == 2
    missing = await pages.get("/api/agents/grok/files/identity.md")
    status, why = await save("identity.md", "---\ncolour: [\n---\n", missing["digest"], "000005")
    assert (status, (folder / "identity.md").exists()) == (409, False)
    assert why.startswith("Not saved. Please fix:")
    assert (await save("../../.env", "x", missing["digest"], "000006"))[0] == 400
    assert (await save("soul.md", "x" * 65_537, now["digest"], "000007"))[0] == 400
    assert (await save("soul.md", "\N{EURO SIGN}" * 30_000, now["digest"], "000008"))[0] == 409, "too many bytes"
