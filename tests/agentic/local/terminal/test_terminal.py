"""The terminal against a double of the stand-in, with a console that writes into memory."""

from __future__ import annotations

import asyncio
import io
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import closing
from dataclasses import replace
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.application import Application, create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput
from rich.console import Console

from agent_cogs.slash_definitions import command_list
from agentic.local.terminal.commands import Answer, MessageNumbers, NumberedMessage, TypedCommand, Unclear, Vocabulary
from agentic.local.terminal.terminal import Screen, Terminal
from agentic.local.terminal.typed_lines import (
    Fire,
    Move,
    Pin,
    Quit,
    React,
    Say,
    Show,
    TypedLine,
    piped_lines,
    read_line,
    typed_lines,
)
from agentic.local.terminal.view import Header, Names, harmless, styled

NOON = 1_790_000_000.0 - 1_790_000_000.0 % 86_400 + 43_200
KNOWN = Vocabulary({"casual": 10, "debate": 11}, {"claude": 1, "grok": 2}, {"bots": 5}, ("debate", "story"))
NAMES = Names(
    channels={10: "casual", 11: "debate"},
    users={1: ("Claude", "#d97757"), 2: ("Grok", "#7a68ae"), 9: ("you", "white")},
    roles={5: "bots"},
    mention_ids=KNOWN.users,
    themes=KNOWN.themes,
)


class FakeStandIn:
    """Posts become events at once, as the real one's do a little later."""

    def __init__(self) -> None:
        self.said: list[tuple[int | str, int | str, str]] = []
        self.done: list[tuple[object, ...]] = []
        self.callbacks: list[Callable[[str, dict[str, Any]], None]] = []
        self.subscribed = asyncio.Event()

    def subscribe(self, callback: Callable[[str, dict[str, Any]], None]) -> Callable[[], None]:
        self.callbacks.append(callback)
        self.subscribed.set()
        return lambda: self.callbacks.remove(callback)

    async def say(
        self, author: int | str, channel: int | str, text: str, *, reply_to: int | None = None
    ) -> dict[str, Any]:
        self.said.append((author, channel, text))
        if reply_to is not None:
            self.done.append(("replied", reply_to))
        return message(text, author=9, channel=int(channel))

    async def react(self, author: int | str, channel: int | str, message: int, emoji: str, given: bool = True) -> bool:
        if emoji.isascii():
            raise ValueError("Unknown Emoji")
        if not given:
            self.done.append(("removed", message, emoji))
            return True
        self.done.append((author, channel, message, emoji))
        return self.done.count(self.done[-1]) == 1

    async def vote(self, author: int | str, channel: int | str, message: int, answer: str) -> None:
        self.done.append((author, channel, message, answer))

    async def pin(self, author: int | str, channel: int | str, message: int, pinned: bool = True) -> bool:
        if message == 404:
            raise KeyError(message)
        self.done.append((author, channel, message, pinned))
        return self.done.count(self.done[-1]) == 1


class FakeConversations:
    """Each one is `held`; `refused` says why none can start."""

    def __init__(self, held: Callable[[int, str | None], Awaitable[str]] | None = None, refused: str = "") -> None:
        self._held, self._refused = held, refused

    def is_running(self, channel_id: int) -> bool:
        return False

    def refusal(self, channel_id: int) -> str:
        return self._refused

    async def hold(self, channel_id: int, theme: str | None) -> str:
        return await self._held(channel_id, theme) if self._held is not None else ""


def message(text: str, *, author: int = 1, channel: int = 11, **more: Any) -> dict[str, Any]:
    who = {"id": str(author), "username": "somebody", "global_name": None, "bot": author != 9}
    fields: dict[str, Any] = {"id": "100", "channel_id": str(channel), "author": who, "content": text}
    return {**fields, "attachments": [], "embeds": [], "mentions": [], **more}


async def typed(*lines: str) -> AsyncGenerator[str]:
    for line in lines:
        yield line


def terminal(
    *lines: str, stand_in: FakeStandIn | None = None, width: int = 100, **more: Any
) -> tuple[Terminal, io.StringIO]:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=False, color_system=None)
    beside = {name: more.pop(name) for name in ("header", "clock") if name in more}
    screen = Screen(console=console, **{"clock": lambda: NOON, "timezone": UTC} | beside)
    options: dict[str, Any] = {"names": NAMES, "me": 9, "conversations": FakeConversations(), "lines": typed(*lines)}
    return Terminal(screen, stand_in or FakeStandIn(), **options | more), out


def shown(*events: tuple[str, dict[str, Any]], width: int = 100) -> str:
    screen, out = terminal(width=width)
    for name, data in events:
        screen.show(name, data)
    return out.getvalue()


def test_a_message_is_shown_with_time_channel_and_speaker() -> None:
    line = shown(("MESSAGE_CREATE", message("Hello there")))
    assert line.split() == ["12:00", "1", "#debate", "Claude", "Hello", "there"]


def test_a_narrow_terminal_puts_the_words_under_their_author() -> None:
    lines = shown(("MESSAGE_CREATE", message("word " * 30)), width=40).splitlines()
    assert lines[0] == "12:00 1 #debate Claude"
    assert all(line.startswith("  word") and len(line.rstrip()) <= 40 for line in lines[1:])


def test_small_print_is_shown_without_its_mark() -> None:
    reaction = {"channel_id": "11", "message_id": "100", "user_id": "1", "emoji": {"name": "👍"}}
    text = shown(("MESSAGE_CREATE", message("Hi\n-# scripted line")), ("MESSAGE_REACTION_ADD", reaction))
    assert "-#" not in text
    assert text.count("scripted line") == 2


def test_mentions_channels_and_roles_are_shown_as_names() -> None:
    text = shown(("MESSAGE_CREATE", message("<@2> <@!1> <#10> <@&5> <:smile:77>")))
    assert "@Grok @Claude #casual @bots :smile:" in text


def test_an_unknown_mention_takes_its_name_from_the_payload() -> None:
    ada = {"id": "44", "username": "ada", "global_name": "Ada"}
    assert "@Ada" in shown(("MESSAGE_CREATE", message("<@44>", mentions=[ada])))


def test_markup_in_a_message_stays_what_it_is() -> None:
    assert "[bold red]x[/] [link=http://a]" in shown(("MESSAGE_CREATE", message("[bold red]x[/] [link=http://a]")))


@pytest.mark.parametrize("field", ["content", "name", "file", "emoji", "embed"])
def test_nothing_of_a_message_can_steer_the_terminal(field: str) -> None:
    evil = "a\x1b[2J\x9b31m\x07\b\u202ez"
    data = message(evil if field == "content" else "x", author=77)
    if field == "name":
        data["author"]["username"] = evil
    if field == "file":
        data["attachments"] = [{"filename": evil, "url": "http://x/" + evil, "content_type": "image/png"}]
    if field == "embed":
        data["embeds"] = [{"title": evil, "footer": {"text": evil}}]
    reaction = {"user_id": "1", "message_id": "100", "emoji": {"name": evil if field == "emoji" else "x"}}
    text = shown(("MESSAGE_CREATE", data), ("MESSAGE_REACTION_ADD", reaction))
    assert not any(char in text for char in "\x1b\x9b\x07\b\u202e")
    assert "z" in text


def test_joined_emoji_survive_the_cleaning() -> None:
    assert harmless("👩\u200d🚀\tx\r\ny\rz") == "👩\u200d🚀    x\nyz"


def test_pictures_files_and_embeds_are_named() -> None:
    files = [
        {"filename": "fox.png", "url": "http://127.0.0.1/1", "content_type": "image/png"},
        {"filename": "notes.txt", "url": "http://127.0.0.1/2"},
    ]
    text = shown(("MESSAGE_CREATE", message("", attachments=files, embeds=[{"footer": {"text": "$0.01"}}])))
    assert "[picture: fox.png]" in text
    assert "[file: notes.txt]" in text
    assert "[$0.01]" in text


def test_a_reaction_names_both_users_and_the_emoji() -> None:
    reaction = {"user_id": "2", "message_id": "100", "emoji": {"name": "🔥"}}
    text = shown(("MESSAGE_CREATE", message("A fine point")), ("MESSAGE_REACTION_ADD", reaction))
    assert "↳ Grok reacted 🔥 to Claude: A fine point\n" in text
    text = shown(("MESSAGE_CREATE", message("A fine point " * 9)), ("MESSAGE_REACTION_ADD", reaction))
    assert "to Claude: A fine point A fine point A fine point A…\n" in text


def test_an_edit_is_shown_once_and_a_preview_is_not() -> None:
    original, edited = message("<@2> one"), message("<@2> two")
    text = shown(
        ("MESSAGE_CREATE", original),
        ("MESSAGE_UPDATE", {**original, "embeds": [{"title": "preview"}]}),
        ("MESSAGE_UPDATE", edited),
        ("MESSAGE_UPDATE", edited),
    )
    assert text.count("edited") == 1
    assert "Claude edited: @Grok two" in text


def test_a_message_that_a_bot_has_not_completed_appears_whole() -> None:
    first, grown, whole = message("Thinking (2 ahead)… ▌"), message("It is ▌"), message("It is noon.")
    text = shown(("MESSAGE_CREATE", first), ("MESSAGE_UPDATE", grown), ("MESSAGE_UPDATE", whole))
    assert "It is noon." in text
    assert not [word for word in ("Thinking", "▌", "edited") if word in text]
    assert shown(("MESSAGE_CREATE", first), ("MESSAGE_DELETE", {"id": "100", "channel_id": "11"})).strip() == ""


def test_a_deletion_names_the_author_where_it_is_known() -> None:
    gone = {"id": "100", "channel_id": "11"}
    text = shown(("MESSAGE_CREATE", message("x")), ("MESSAGE_DELETE", gone), ("MESSAGE_DELETE", gone))
    assert "a message by Claude was deleted" in text
    assert "an earlier message was deleted" in text


def test_typing_is_known_until_the_message_or_ten_seconds() -> None:
    now = [NOON]
    screen, out = terminal(clock=lambda: now[0])
    start = {"channel_id": "11", "user_id": "1"}
    screen.show("TYPING_START", start)
    assert screen._view.typing() == "Claude is typing in #debate"
    screen.show("MESSAGE_CREATE", message("done"))
    assert screen._view.typing() == ""
    screen.show("TYPING_START", start)
    now[0] += 11
    assert screen._view.typing() == ""
    assert "typing" not in out.getvalue()


@pytest.mark.parametrize(
    ("event", "line"),
    [
        ("MESSAGE_CREATE", "12:00   1 #chann… someo… [empty]"),
        ("MESSAGE_UPDATE", ""),
        ("MESSAGE_DELETE", "✗ an earlier message was deleted"),
        ("MESSAGE_REACTION_ADD", "↳ someone reacted ? to an earlier message"),
        ("TYPING_START", ""),
        ("X", ""),
    ],
)
def test_an_event_without_the_expected_fields_is_shown_as_far_as_it_is_known(event: str, line: str) -> None:
    *found, last = shown((event, {}), ("MESSAGE_CREATE", message("still here"))).splitlines()
    assert "still here" in last
    assert [one.strip() for one in found] == ([line] if line else [])


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("", None),
        ("   ", None),
        ("hello", Say(10, "hello")),
        ("@Claude hello", Say(10, "<@1> hello")),
        ("what do @CLAUDE and @grok, say?", Say(10, "what do <@1> and <@2>, say?")),
        ("@bots @claudette me@grok.example", Say(10, "<@&5> @claudette me@grok.example")),
        ("#debate", Move(11)),
        ("#DEBATE @grok go", Say(11, "<@2> go")),
        ("/fire", Fire()),
        ("/fire #casual story", Fire(10, "story")),
        ("/fire Story", Fire(None, "story")),
        ("/fire debate", Fire(11)),
        ("/fire debate debate", Fire(11, "debate")),
        ("//usr/bin is a folder", Say(10, "/usr/bin is a folder")),
        ("##debate is a word", Say(10, "#debate is a word")),
        ("# A heading", Say(10, "# A heading")),
        ("/who", Show("who")),
        ("/channels", Show("channels")),
        ("/HELP", Show("help")),
        ("/help all", Show("all commands")),
        ("help", Show("help")),
        ("help me", Say(10, "help me")),
        ("/quit", Quit()),
        (" /exit ", Quit()),
        ("exit", Quit()),
    ],
)
def test_a_typed_line_is_read(line: str, typed: TypedLine | None) -> None:
    assert read_line(line, 10, KNOWN) == typed


@pytest.mark.promise(122)
@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("#nowhere hi", "there's no channel #nowhere; /channels lists them all (To post it as text, type ##nowhere"),
        ("#debatte hi", "did you mean #debate?"),
        ("/dance", "unknown command /dance; /help all lists the commands (To post it as text, type //dance"),
        ("/usr/bin is a folder", "unknown command /usr/bin"),
        ("/raect 1 stop", "did you mean /react?"),
        ("hi @cluade", "there's no @cluade; did you mean @claude?"),
        ("@gork hi", "did you mean @grok?"),
        ("/fire opera", "themes are debate, story"),
        ("/fire debaet", "did you mean debate?"),
        ("x" * 2001, "that's 2,001 characters"),
        ("/why 5", "unknown command /why"),
        ("#debate /dance", "unknown command /dance"),
        ("/reply 5 hi", "there's no message 5"),
        ("/reply hi", "no bot has written in this channel yet"),
        ("/react", "/react needs an emoji"),
        ("/pin 5", "there's no message 5"),
        ("/unpin", "/unpin needs the number"),
        (".history last: 5", "there's no message 5"),
    ],
)
def test_what_is_not_understood_posts_nothing_and_gets_a_hint(line: str, hint: str) -> None:
    with pytest.raises(Unclear, match=re.escape(hint)):
        read_line(line, 10, KNOWN)


def numbered() -> Vocabulary:
    """Message 1 of a bot and 2 of a person in the channel 11, 3 of a bot in 10."""
    messages = MessageNumbers()
    messages.add(101, 11, by_bot=True)
    messages.add(102, 11, by_bot=False)
    messages.add(103, 10, by_bot=True)
    commands = command_list({"grok": "Grok"})
    return Vocabulary(KNOWN.channels, KNOWN.users, KNOWN.roles, KNOWN.themes, commands, messages, guild=7)


@pytest.mark.parametrize(
    ("line", "typed"),
    [
        ("/reply 2 I  agree", Say(11, "I  agree", reply_to=102)),
        ("/reply @claude no", Say(11, "<@1> no", reply_to=101)),
        ("/reply 3 there", Say(10, "there", reply_to=103)),
        ("/react 2 🛑", React(NumberedMessage(2, 102, 11, by_bot=False), "🛑")),
        ("/react stop", React(NumberedMessage(1, 101, 11, by_bot=True), "🛑")),
        ("/react 🔥 3", React(NumberedMessage(3, 103, 10, by_bot=True), "🔥")),
        ("/pin 1", Pin(NumberedMessage(1, 101, 11, by_bot=True))),
        ("/pin", Pin(NumberedMessage(2, 102, 11, by_bot=False))),
        ("/unpin 1", Pin(NumberedMessage(1, 101, 11, by_bot=True), pinned=False)),
        ("/why", TypedCommand("why", {"message": "101"})),
        ("/why 2", TypedCommand("why", {"message": "102"})),
        ("#casual /why", TypedCommand("why", {"message": "103"}, channel_id=10)),
        ("#casual /room status", TypedCommand("room status", channel_id=10)),
        ("#casual  /bots mute grok 5", TypedCommand("bots mute", {"bot": "grok", "minutes": 5}, channel_id=10)),
        ("#casual /reply no", Say(10, "no", reply_to=103)),
        ("#casual /react stop", React(NumberedMessage(3, 103, 10, by_bot=True), "🛑")),
        ("#casual /pin", Pin(NumberedMessage(3, 103, 10, by_bot=True))),
        ("#casual /fire", Fire(10)),
        ("#casual /fire story", Fire(10, "story")),
        ("#casual /fire debate", Fire(11)),
        ("#casual /who", Show("who")),
        ("#casual /quit", Quit()),
        ("#casual //usr/bin", Say(10, "/usr/bin")),
        ("#casual a/b or /c", Say(10, "a/b or /c")),
        (
            ".history grok first: 1 last: 3",
            Say(
                11,
                ".history grok first: https://discord.com/channels/7/11/101"
                " last: https://discord.com/channels/7/10/103",
            ),
        ),
        ("@claude .history last:2", Say(11, "<@1> .history last:https://discord.com/channels/7/11/102")),
        ("first: 1 last: 3", Say(11, "first: 1 last: 3")),
    ],
)
def test_the_number_of_a_message_stands_for_it(line: str, typed: TypedLine) -> None:
    assert read_line(line, 11, numbered()) == typed


def test_a_deleted_message_is_not_meant_any_more() -> None:
    known = numbered()
    known.messages.delete(101)
    with pytest.raises(Unclear, match=r"^1 does not fit /why: message is the number before a message, or its id$"):
        read_line("/why 1", 11, known)
    with pytest.raises(Unclear, match=r"^no bot has written in this channel yet$"):
        read_line("/why", 11, known)
    assert known.messages.add(104, 11, by_bot=True) == 4, "its number is not given again"


async def test_a_person_replies_reacts_and_pins_by_the_numbers_on_the_screen() -> None:
    stand_in = FakeStandIn()
    lines = (
        "/reply 1 why?",
        "/react 1 stop",
        "/react 1 nonsense",
        "/pin 1",
        "/unpin 1",
        "/pin 2",
        "/react 1 stop",
        "/pin 1",
    )
    screen, out = terminal(*lines, stand_in=stand_in)
    screen.show("MESSAGE_CREATE", message("A fine point", id="101"))
    screen.show("MESSAGE_CREATE", message("is gone", id="404"))
    await screen.run()
    assert stand_in.said == [(9, 11, "why?")]
    first = [("replied", 101), (9, 11, 101, "🛑"), (9, 11, 101, True), (9, 11, 101, False)]
    assert stand_in.done[:4] == first
    for note in (
        "refuse that: Unknown Emoji",
        "message 1 is not pinned",
        "message 1 is pinned",
        "your 🛑 was removed from message 1",
        "that message is gone",
    ):
        assert note in out.getvalue()


def test_a_reply_a_pin_and_a_used_command_name_what_they_are_about() -> None:
    reference = {"message_id": "100", "channel_id": "11"}
    link = "https://discord.com/channels/7/11/"
    text = shown(
        ("MESSAGE_CREATE", message("A fine point")),
        ("MESSAGE_CREATE", message("Is it?", id="101", type=19, message_reference=reference)),
        ("MESSAGE_CREATE", message("", id="102", type=6, author=9, message_reference=reference)),
        (
            "MESSAGE_CREATE",
            message(f"<@2> {link}100 or {link}55", id="103", interaction={"name": "ask", "user": {"id": "9"}}),
        ),
    )
    assert [line[25:].rstrip() if line[0] == "1" else line.strip() for line in text.splitlines()] == [
        "A fine point",
        "↱ to message 1",
        "Is it?",
        "↳ you pinned message 1",
        "↱ you used /ask",
        f"@Grok 1 or {link}55",
    ]


async def test_a_line_that_ends_in_a_backslash_goes_on_in_the_next_one() -> None:
    stand_in = FakeStandIn()
    screen, _ = terminal(".config grok\\", "---\\", "  stream: true", "hello", "\\", stand_in=stand_in)
    await screen.run()
    assert [text for _, _, text in stand_in.said] == [".config grok\n---\n  stream: true", "hello"]


async def test_a_saved_file_is_named_by_its_whole_path_on_one_line(tmp_path: Path) -> None:
    path = tmp_path / ("long-" * 30) / "fox.png"

    def save(attachment: Mapping[str, Any]) -> Path | None:
        if attachment["filename"] == "full.txt":
            raise OSError(28, "No space left on device")
        return path

    screen, out = terminal(save=save, width=40)
    screen.show("MESSAGE_CREATE", message("", attachments=[{"filename": "fox.png"}, {"filename": "full.txt"}]))
    assert str(path) in [line.strip() for line in out.getvalue().splitlines()]
    assert "the file full.txt was not saved: No" in " ".join(out.getvalue().split())


async def test_fire_where_none_can_start_is_one_line() -> None:
    screen, out = terminal("/fire", conversations=FakeConversations(refused="#casual is stopped; type /resume"))
    await screen.run()
    *_, line = out.getvalue().splitlines()
    assert line.strip() == "· no conversation started: #casual is stopped; type /resume"
    assert "starting" not in out.getvalue()


@pytest.mark.parametrize("width", [20, 40])
async def test_a_narrow_terminal_shows_every_line_within_its_width(width: int) -> None:
    screen, out = terminal("/help", "/who", "/channels", "/nonsense", width=width)
    screen.show("MESSAGE_CREATE", message("word " * 30, type=19, message_reference={"message_id": "1"}))
    before = len(out.getvalue().splitlines())
    screen.show("MESSAGE_REACTION_ADD", {"user_id": "2", "message_id": "100", "emoji": {"name": "x"}})
    assert all(line.startswith("      ") for line in out.getvalue().splitlines()[before:])
    await screen.run()
    assert all(len(line.rstrip()) <= width for line in out.getvalue().splitlines())


async def test_typed_lines_are_posted_as_the_person_where_they_stand() -> None:
    stand_in = FakeStandIn()
    screen, _ = terminal("hi", "#debate", "@claude ready?", "#casual bye", "/quit", "never", stand_in=stand_in)
    assert await screen.run() == "quit"
    assert stand_in.said == [(9, 10, "hi"), (9, 11, "<@1> ready?"), (9, 10, "bye")]
    assert screen.channel == 11
    assert stand_in.callbacks == []


async def test_the_end_of_the_input_ends_the_terminal() -> None:
    screen, _ = terminal("hello")
    assert await screen.run() == "eof"


async def test_events_appear_while_it_runs() -> None:
    stand_in, more = FakeStandIn(), asyncio.Event()

    async def waiting() -> AsyncGenerator[str]:
        await more.wait()
        yield "/quit"

    screen, out = terminal(stand_in=stand_in, lines=waiting())
    running = asyncio.create_task(screen.run())
    await stand_in.subscribed.wait()
    stand_in.callbacks[0]("MESSAGE_CREATE", message("news"))
    more.set()
    assert await running == "quit"
    assert "news" in out.getvalue()


async def test_a_conversation_runs_beside_the_terminal_and_ends_with_it() -> None:
    fired: list[tuple[int, str | None]] = []
    ended: list[str] = []
    began = asyncio.Event()

    async def fire(channel_id: int, theme: str | None) -> str:
        fired.append((channel_id, theme))
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return ""

    async def lines() -> AsyncGenerator[str]:
        yield "/fire debate story"
        await began.wait()
        yield "/quit"

    screen, out = terminal(conversations=FakeConversations(fire), lines=lines())
    assert await screen.run() == "quit"
    assert fired == [(11, "story")]
    assert ended == ["cancelled"]
    assert "starting a conversation in #debate, with the theme story" in out.getvalue()


async def test_a_conversation_that_fails_is_reported_and_the_terminal_continues() -> None:
    failed = asyncio.Event()

    async def fire(channel_id: int, theme: str | None) -> str:
        failed.set()
        raise ConnectionError("a secret detail")

    async def lines() -> AsyncGenerator[str]:
        yield "/fire"
        await failed.wait()
        await asyncio.sleep(0)
        yield "/channels"

    screen, out = terminal(conversations=FakeConversations(fire), lines=lines())
    assert await screen.run() == "eof"
    assert "the conversation failed; the log says why" in out.getvalue()
    assert not any(word in out.getvalue() for word in ("secret", "ConnectionError"))


async def test_the_reason_why_no_conversation_started_is_shown() -> None:
    async def fire(channel_id: int, theme: str | None) -> str:
        return "somebody wants silence there"

    screen, out = terminal("/fire", conversations=FakeConversations(fire))
    async with screen.watching():
        await screen.run()
        await screen.tasks_done()
    assert "no conversation started: somebody wants silence there" in out.getvalue()


async def test_around_a_run_watching_goes_on_after_the_end_of_the_input() -> None:
    stand_in, began, finish = FakeStandIn(), asyncio.Event(), asyncio.Event()

    async def fire(channel_id: int, theme: str | None) -> str:
        began.set()
        await finish.wait()
        return ""

    screen, out = terminal("/fire", stand_in=stand_in, conversations=FakeConversations(fire))
    async with screen.watching():
        assert await screen.run() == "eof"
        await began.wait()
        stand_in.callbacks[0]("MESSAGE_CREATE", message("later"))
        finish.set()
        await screen.tasks_done()
    assert stand_in.callbacks == []
    assert out.getvalue().count("agentic-discord on this machine") == 1
    assert "later" in out.getvalue()


async def test_the_header_shows_which_bots_are_scripted_or_paid_and_how_to_talk() -> None:
    voices = {"Claude": None, "Grok": "xai/grok-4.7", "Gemini": "ollama/llama3.3"}
    header = Header(voices, free={"ollama/llama3.3"}, data_dir="data/local")
    screen, out = terminal("/who", header=header)
    await screen.run()
    text = out.getvalue()
    assert "Claude (lines written in advance: free, no model; " in text
    assert text.count("real answers need an API key") == 1
    assert "Grok (xai/grok-4.7): each call costs money" in text
    assert "Gemini (ollama/llama3.3): on your own machines" in text
    for word in ("data/local", "@claude hello", "/fire story", "/quit"):
        assert word in text


async def test_the_header_of_a_single_conversation_offers_nothing_to_type() -> None:
    screen, out = terminal(header=Header({"Claude": None}, joinable=False))
    await screen.run()
    assert "without --once, you can join in" in out.getvalue()
    assert "@claude hello" not in out.getvalue()


async def test_help_lists_six_commands_and_help_all_the_rest() -> None:
    screen, out = terminal("/help")
    await screen.run()
    assert all(word in out.getvalue() for word in ("@claude", "/fire", "/quit", "/help all"))
    assert "/channels" not in out.getvalue()
    screen, out = terminal("/help all")
    await screen.run()
    assert all(word in out.getvalue() for word in ("@claude", "/fire", "/quit", "#debate", "/who", "/channels"))


async def test_other_channels_wait_until_a_question_is_answered() -> None:
    stand_in, asked = FakeStandIn(), asyncio.Event()

    async def lines() -> AsyncGenerator[str]:
        yield "@claude are you there?"
        stand_in.callbacks[0]("MESSAGE_CREATE", message("A line of #debate", channel=11))
        stand_in.callbacks[0]("MESSAGE_CREATE", message("Yes, I am.", channel=10))
        stand_in.callbacks[0]("MESSAGE_CREATE", message("Another line of #debate", channel=11))
        yield "@claude and now?"
        stand_in.callbacks[0]("MESSAGE_CREATE", message("A line that waits", channel=11))
        assert "waits" not in out.getvalue()
        yield "#debate"
        assert "waits" in out.getvalue(), "whoever goes there wants to see it"
        asked.set()

    screen, out = terminal(stand_in=stand_in, lines=lines())
    await screen.run()
    text = out.getvalue()
    assert asked.is_set()
    assert text.index("Yes, I am.") < text.index("A line of #debate") < text.index("Another line of #debate")
    assert text.count("Two things to try next") == 1


async def test_nothing_comes_between_the_questions_of_a_form() -> None:
    stand_in, asking = FakeStandIn(), asyncio.Event()
    fields = [{"type": 4, "label": label, "required": False} for label in ("Topic", "Rules")]

    async def use(channel_id: int, command: TypedCommand) -> Answer:
        asking.set()
        return Answer(title="A new room", fields=fields)

    async def lines() -> AsyncGenerator[str]:
        yield "/resume"
        await asking.wait()
        await asyncio.sleep(0)
        yield "Tea"
        stand_in.callbacks[0]("MESSAGE_CREATE", message("A line of this channel", channel=10))
        yield "/who"
        assert "A line" not in out.getvalue()
        yield "/cancel"
        assert "A line" in out.getvalue()

    commands = command_list({"grok": "Grok"})
    screen, out = terminal(stand_in=stand_in, lines=lines(), use=use, names=replace(NAMES, commands=commands))
    await screen.run()
    assert "Rules" in out.getvalue()


def test_a_terminal_shows_discords_marks_as_styles() -> None:
    def spans(line: str) -> tuple[str, list[tuple[str, str]]]:
        text = styled(line)
        return text.plain, [(text.plain[span.start : span.end], str(span.style)) for span in text.spans]

    assert spans("a **b c** *d* `e*f*` ~~g~~ __h__ _i_") == (
        "a b c d e*f* g h i",
        [("b c", "bold"), ("d", "italic"), ("e*f*", "cyan"), ("g", "strike"), ("h", "underline"), ("i", "italic")],
    )
    for plain in ("2 * 3 * 4", "snake_case_name", "**", "a ** b", "* an item"):
        assert spans(plain) == (plain, [])
    assert styled("## Title").plain == "Title"


async def test_a_command_of_the_bots_is_used_where_one_stands_and_its_answer_reads_as_words() -> None:
    used: list[tuple[int, TypedCommand]] = []

    async def use(channel_id: int, command: TypedCommand) -> Answer:
        used.append((channel_id, command))
        if command.command == "resume":
            raise LookupError("no bot has its commands yet")
        return Answer("**Grok** is muted in <#11>, as <@9> wished\nuntil <t:1789992000:t>")

    commands = command_list({"grok": "Grok"})
    screen, out = terminal(
        "/bots mute grok 5",
        "/resume",
        "/bots dance",
        "#debate /reset",
        use=use,
        names=replace(NAMES, commands=commands),
    )
    async with screen.watching():
        await screen.run()
        await screen.tasks_done()
    assert [(channel, command.command) for channel, command in used] == [
        (10, "bots mute"),
        (10, "resume"),
        (11, "reset"),
    ]
    for line in (
        "Grok is muted in #debate, as @you wished",
        "until 12:00",
        "no bot has its commands yet",
        "needs one of",
    ):
        assert line in out.getvalue()


async def test_an_answer_with_a_time_that_no_calendar_has_is_shown_as_it_is() -> None:
    async def use(channel_id: int, command: TypedCommand) -> Answer:
        return Answer("somebody wrote <t:999999999999:R>")

    screen, out = terminal("/resume", use=use, names=replace(NAMES, commands=command_list({"grok": "Grok"})))
    async with screen.watching():
        await screen.run()
        await screen.tasks_done()
    assert "somebody wrote <t:999999999999:R>" in out.getvalue()


async def test_a_hint_does_not_repeat_a_page_of_what_was_typed() -> None:
    screen, out = terminal(f"/{'x' * 5_000}")
    await screen.run()
    assert "unknown command /xxx" in out.getvalue()
    assert out.getvalue().count("x") < 200


async def test_what_goes_on_in_a_note_stands_below_where_it_began() -> None:
    async def use(channel_id: int, command: TypedCommand) -> Answer:
        return Answer("first " * 20 + "\n-# small\n```md\nin code\n```")

    screen, out = terminal("/resume", use=use, names=replace(NAMES, commands=command_list({"grok": "Grok"})))
    async with screen.watching():
        await screen.run()
        await screen.tasks_done()
    noted = [
        line.rstrip() for line in out.getvalue().splitlines() if any(w in line for w in ("first", "small", "code"))
    ]
    assert noted[0].startswith("      · first")
    assert len(noted) == 4
    assert [line[:8] for line in noted[1:]] == [" " * 8] * 3
    assert [line.strip() for line in noted[2:]] == ["small", "in code"]


async def test_without_bots_that_have_commands_their_words_are_not_known() -> None:
    screen, out = terminal("/bots status")
    await screen.run()
    assert "unknown command /bots" in out.getvalue()


async def test_lines_come_from_a_pipe_until_its_end_also_without_a_last_newline() -> None:
    reading, writing = os.pipe()
    with closing(os.fdopen(reading, "rb", buffering=0)):
        os.write(writing, "grüße\n\nlast \xff".encode("latin-1").replace(b"\xfc\xdf", "üß".encode()))
        os.close(writing)
        assert [line async for line in piped_lines(reading)] == ["grüße", "", "last \ufffd"]


async def test_a_descriptor_that_is_not_open_is_the_end() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    os.close(writing)
    assert [line async for line in piped_lines(reading)] == []


async def test_lines_come_from_a_terminal_until_control_d() -> None:
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("hello\r@claude x\r\x04")
        lines = [line async for line in typed_lines(lambda: "> ", lambda: "", lambda text: [])]
    assert lines == ["hello", "@claude x"]


async def test_control_z_suspends_the_program_and_leaves_the_typed_line(monkeypatch: pytest.MonkeyPatch) -> None:
    suspended: list[Application[str]] = []
    # The real one would stop the tests as well.
    monkeypatch.setattr(Application, "suspend_to_background", lambda app: suspended.append(app))
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("hel\x1alo\r\x04")
        lines = [line async for line in typed_lines(lambda: "> ", lambda: "", lambda text: [])]
    assert lines == ["hello"]
    assert len(suspended) == 1
