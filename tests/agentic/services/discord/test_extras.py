"""What Discord keeps outside of a message's text, in odd shapes too."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agentic.chat.directory import Directory
from agentic.context.entries import NOBODY_CALLED
from agentic.services.discord.messages import MAX_CHARACTERS, forwarded_files, to_entry
from tests.support.doubles import attachment, message, user

PLACE = SimpleNamespace(id=100, guild=None)
ELSEWHERE = {"type": 1, "message_id": "7", "channel_id": "999", "guild_id": "5"}
SNAPSHOT = {
    "type": 0,
    "content": "see <@21> and <@12>",
    "mentions": [{"id": "12", "username": "bob", "global_name": "Bob", "discriminator": "0", "avatar": None}],
    "mention_roles": [],
    "attachments": [attachment(31), attachment(32, "a.txt", "text/plain; charset=utf-8")],
    "embeds": [{"type": "rich", "title": "T"}],
    "sticker_items": [{"id": "1", "name": "Wave", "format_type": 1}],
    "edited_timestamp": None,
    "timestamp": "2026-01-01T00:00:00+00:00",
}


def entry_of(text: str = "", **payload: object):
    directory = Directory({"claude": "Claude"})
    directory.learn("claude", 21)
    return to_entry(message(PLACE, 1, text, **payload), directory)


def test_a_forward_has_words_files_and_whatever_else_it_forwards_and_mentions_nobody():
    entry = entry_of(
        message_reference=ELSEWHERE, message_snapshots=[{"message": SNAPSHOT}], mentions=[user(21, "Claude", bot=True)]
    )
    assert entry.extras == ("forwarded message: see @Claude and @Bob", "forwarded sticker: Wave", "forwarded embed: T")
    assert [(file.id, file.media_type) for file in entry.attachments] == [(31, "image/png"), (32, "text/plain")]
    assert (entry.addressees, entry.reply_to, entry.text) == (NOBODY_CALLED, None, "")


def test_a_forward_of_a_forward_has_the_words_and_files_of_what_was_written_first():
    forward = {**SNAPSHOT, "content": "", "attachments": [], "message_snapshots": [{"message": SNAPSHOT}]}
    entry = entry_of(message_reference=ELSEWHERE, message_snapshots=[{"message": forward}])
    assert "forwarded message: see @Claude and @Bob" in entry.extras
    assert [file.id for file in entry.attachments] == [31, 32]


@pytest.mark.parametrize("text", [". not for bots", "<@21> .secret", "🙃 secret"])
def test_a_forward_of_a_message_that_hides_itself_is_hidden(text):
    hidden = {**SNAPSHOT, "content": text}
    assert entry_of(message_reference=ELSEWHERE, message_snapshots=[{"message": hidden}]).hidden
    assert not entry_of(message_reference=ELSEWHERE, message_snapshots=[{"message": SNAPSHOT}]).hidden


def test_a_forward_with_a_file_that_cannot_be_read_keeps_its_words():
    odd = [{"id": None, "url": "https://x.example"}, {"id": "9", "url": None}, {"id": "8", "url": "u", "size": "big"}]
    snapshot = {"type": 0, "content": "words", "attachments": odd}
    files = list(forwarded_files(SimpleNamespace(_raw_data={"message_snapshots": [{"message": snapshot}]})))
    assert [(file.id, file.size, file.filename) for file in files] == [(8, 0, "file")]


def test_a_post_that_a_channel_follows_from_elsewhere_is_no_reply():
    assert entry_of("news", message_reference={**ELSEWHERE, "type": 0}, flags=2).reply_to is None
    here = {"message_id": "7", "channel_id": "100"}
    assert entry_of("yes", type=19, message_reference=here, referenced_message=None).reply_to == 7


def test_a_voice_message_has_its_length():
    sound = {**attachment(9, "voice-message.ogg", "audio/ogg"), "duration_secs": 12.4, "waveform": "AA=="}
    assert entry_of(flags=1 << 13, attachments=[sound]).extras == ("voice message: 12 s",)


@pytest.mark.parametrize(
    ("payload", "extras"),
    [
        (
            {"components": [{"type": 99, "content": "new", "components": None}]},
            ("components: new",),
        ),
        ({"embeds": [{"type": "image", "url": "https://x.example/a.png"}]}, ()),
        ({"embeds": [{"type": "rich", "fields": [], "footer": {"text": "only this"}}]}, ("embed: only this",)),
        ({"poll": {"question": {"text": None}, "answers": []}}, ()),
        (
            {"embeds": [{"type": "rich", "title": "T", "fields": [{"name": "\u200b", "value": "\u200b"}]}]},
            ("embed: T",),
        ),
        ({"embeds": [{"type": "rich", "image": {"url": "https://x.example"}}] * 4}, ("embed: with a picture",)),
        ({"embeds": [{"type": "rich", "thumbnail": {"url": "https://x.example"}}]}, ("embed: with a picture",)),
        ({"components": [{"type": 12, "items": [{"media": {"url": "https://x.example"}}]}]}, ("components: picture",)),
        ({"flags": "x", "sticker_items": [{"id": "1", "name": "A\nB", "format_type": 1}]}, ("sticker: A B",)),
    ],
)
def test_odd_and_empty_things_lose_nothing_else(payload, extras):
    entry = entry_of("hello", **payload)
    assert (entry.text, entry.extras) == ("hello", extras)


def test_all_lines_of_a_message_together_have_a_limit():
    embeds = [{"type": "rich", "description": f"{number}" * 4_000} for number in range(10)]
    assert sum(map(len, entry_of(embeds=embeds).extras)) == MAX_CHARACTERS


def test_an_agents_own_embeds_are_not_shown_and_a_foreign_bots_answer_to_a_menu_command_is():
    embed = {"type": "rich", "title": "T"}
    assert entry_of("x", author=21, bot=True, embeds=[embed]).extras == ()
    assert entry_of(author=99, bot=True, type=23, embeds=[embed]).extras == ("embed: T",)
    assert entry_of(type=6) is None
