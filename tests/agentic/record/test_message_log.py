"""The log of messages: which of them reach the record, once each, and how they are kept true."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from agentic.chat.directory import Directory
from agentic.chat.transcript import Transcripts
from agentic.context.commands import Order
from agentic.context.entries import Attachment, Entry, Speaker
from agentic.context.options import Options
from agentic.record.notes import ChannelReader, ChannelReaders, MessageLog
from agentic.wire.entries import Entry as RecordEntry
from agentic.wire.entries import LoggedMessage

LOUNGE, NOW, LATE = 100, 10_000.0, 600.0
ALICE = Speaker(11, "Alice", "person")
CLAUDE = Speaker(21, "Claude", "agent", "claude")
LOGGED = ChannelReader(agent="claude", options=Options(message_log=True), guild_id=7, service="discord")


class Record:
    """Keeps what is logged, by stream."""

    def __init__(self) -> None:
        self.logged: list[LoggedMessage] = []
        self.streams = set[str]()

    def note(self, entry: RecordEntry) -> None:
        raise AssertionError(f"a note of {entry}")

    def log(self, agent: str, entry: RecordEntry) -> None:
        assert isinstance(entry, LoggedMessage)
        self.streams.add(agent)
        self.logged.append(entry)

    @property
    def texts(self) -> list[str]:
        return [each.text for each in self.logged]


class Scene:
    def __init__(self, hearing: ChannelReader | None = LOGGED) -> None:
        self.transcripts, self.channel_readers, self.record = Transcripts(Directory()), ChannelReaders(), Record()
        self.hearing, self.ignored, self.deleted = hearing, set[int](), list[int]()
        self.channel_readers.add("claude", lambda channel: self.hearing if channel == LOUNGE else None)
        self.log = MessageLog(
            self.transcripts,
            self.channel_readers,
            self.record,
            lambda: NOW,
            is_ignored=lambda user, *_: user in self.ignored,
            late_seconds=LATE,
            deleted=self._delete,
        )
        self.transcripts.watch(self.log.changed)

    def _delete(self, channel_id: int, message_ids: Collection[int]) -> None:
        self.deleted += message_ids

    def add(self, *entries: Entry, channel: int = LOUNGE) -> list[str]:
        """They come; what the record has then."""
        for entry in entries:
            self.transcripts.of(channel).add(entry)
        self.log.flush()
        return self.record.texts

    def edit(self, entry: Entry) -> list[str]:
        self.transcripts.changed(LOUNGE, (entry.id,))
        self.transcripts.of(LOUNGE).revise(entry)
        self.log.flush()
        return self.record.texts


def said(message_id: int, text: str = "hello", speaker: Speaker = ALICE, **more: object) -> Entry:
    return Entry(message_id, speaker, text, NOW, **more)  # type: ignore[arg-type]


def test_a_message_is_logged_with_its_author_and_what_it_answers() -> None:
    scene = Scene()
    scene.add(said(1), said(2, "hi", CLAUDE, reply_to=1, attachments=(Attachment(5, "a.png", "", 1, "image/png"),)))
    asked, answer = scene.record.logged
    assert (asked.author, asked.author_id, asked.agent, asked.name, asked.guild_id) == ("person", 11, None, "Alice", 7)
    assert (answer.author, answer.author_id, answer.agent, answer.reply_to) == ("agent", None, "claude", 1)
    assert (answer.text, answer.at, answer.read_at) == ("hi (picture: a.png)", NOW, NOW)
    assert scene.record.streams == {"claude"}


@pytest.mark.promise(485)
def test_a_post_is_logged_with_what_it_answers_also_where_that_is_known_later() -> None:
    scene = Scene()
    there = scene.transcripts.of(LOUNGE)
    there.note_answers([2], 1)
    scene.add(said(1), said(2, "hi", CLAUDE), said(4, "hello", CLAUDE))
    there.note_answers([4], 1)
    scene.log.flush()
    logged = [(each.message_id, each.reply_to) for each in scene.record.logged]
    assert sorted(logged[:2]) == [(1, None), (2, 1)]
    assert logged[2:] == [(4, None), (4, 1)]


@pytest.mark.parametrize("hearing", [None, ChannelReader(agent="claude", options=Options(), service="discord")])
def test_nothing_is_logged_where_no_agent_hears_it_with_the_option_on(hearing: ChannelReader | None) -> None:
    assert Scene(hearing).add(said(1)) == []


def test_what_came_several_times_or_got_a_reaction_is_logged_once() -> None:
    scene = Scene()
    scene.add(said(1))
    scene.add(said(1))
    scene.transcripts.of(LOUNGE).react(1, "🔥", 12, "Bob")
    scene.log.flush()
    assert scene.record.texts == ["hello"]


@pytest.mark.parametrize(
    "entry",
    [said(1, ".aside"), said(1, "m continue"), said(1, "🙃 no"), said(1, "@Claude stop", order=Order("stop"))],
    ids=["period", "command", "sign", "order"],
)
def test_hidden_messages_commands_and_orders_are_not_logged(entry: Entry) -> None:
    assert Scene().add(entry) == []


def test_ignored_people_are_not_logged() -> None:
    scene = Scene()
    scene.ignored.add(ALICE.id)
    assert scene.add(said(1), said(2, "hi", CLAUDE)) == ["hi"]


def test_what_was_written_long_before_the_program_began_is_not_logged() -> None:
    old, late = replace(said(1, "old"), created_at=NOW - LATE - 1), replace(said(2, "late"), created_at=NOW - LATE)
    assert Scene().add(old, late) == ["late"]


def test_an_edit_is_logged_again_also_of_a_message_that_an_earlier_run_has_logged() -> None:
    scene = Scene()
    scene.add(said(1), replace(said(2, "old"), created_at=0.0))
    assert scene.edit(said(1, "hello there")) == ["hello", "hello there"]
    assert scene.edit(said(2, "new")) == ["hello", "hello there", "new"]


def test_an_edit_reaches_the_log_where_that_was_switched_off_meanwhile() -> None:
    scene = Scene()
    scene.add(said(1), said(2))
    scene.hearing = None
    assert scene.edit(said(1, "")) == ["hello", "hello"]  # a bot without the intent gets an edit so
    assert scene.edit(said(1, "…")) == ["hello", "hello", "…"]


def test_what_is_hidden_later_loses_its_words_and_has_them_again_when_it_is_shown() -> None:
    scene = Scene()
    scene.add(said(1), said(2, "other"))
    scene.transcripts.of(LOUNGE).react(1, "🙃", 11, "Alice")
    scene.log.flush()
    assert scene.edit(said(2, ".other")) == ["hello", "other", "", ""]
    scene.transcripts.of(LOUNGE).unreact(1, "🙃", 11)
    scene.log.flush()
    assert scene.record.texts[4:] == ["hello"]


def test_a_message_of_an_earlier_run_that_is_hidden_by_a_sign_loses_its_words() -> None:
    scene = Scene()
    scene.add(replace(said(1), created_at=0.0))
    scene.transcripts.of(LOUNGE).react(1, "🙃", 11, "Alice")
    scene.log.flush()
    assert scene.record.texts == [""]


def test_what_is_deleted_at_once_is_never_logged_and_later_it_is_noted() -> None:
    scene = Scene()
    scene.transcripts.of(LOUNGE).add(said(1))
    scene.transcripts.of(LOUNGE).delete(1)
    assert scene.add(said(2)) == ["hello"]
    scene.transcripts.of(LOUNGE).delete(2)
    scene.log.flush()
    assert (scene.record.texts, scene.deleted) == (["hello"], [2])


def test_a_channel_that_fails_costs_no_other_its_log() -> None:
    scene = Scene()

    def failing(channel: int) -> ChannelReader | None:
        if channel != LOUNGE:
            raise RuntimeError("odd")
        return LOGGED

    scene.channel_readers.add("claude", failing)
    scene.transcripts.of(LOUNGE + 1).add(said(5))
    assert scene.add(said(1)) == ["hello"]


def test_a_hearer_that_began_again_stays_when_its_former_run_ends() -> None:
    channel_readers = ChannelReaders()

    def former(_: int) -> ChannelReader | None:
        return None

    channel_readers.add("claude", former)
    channel_readers.add("claude", lambda _: LOGGED)
    channel_readers.remove("claude", former)
    assert channel_readers.logging(LOUNGE) == LOGGED
    assert "claude" in channel_readers
