"""Whose are the reactions that REST only counts?"""

from types import SimpleNamespace

import pytest

from agentic.services.discord.view import MAX_GIVERS, MAX_LOOKUPS, with_marks_of_people

PERSON, BOT = SimpleNamespace(bot=False), SimpleNamespace(bot=True)


def marked(*emojis):
    return SimpleNamespace(reactions=[SimpleNamespace(emoji=emoji, count=3) for emoji in emojis])


async def counted(message, givers):
    asked = []

    async def of(mark):
        asked.append(mark.emoji)
        return givers

    await with_marks_of_people([message], of)
    return [(mark.emoji, mark.count) for mark in message.reactions], asked


async def test_people_alone_are_counted_and_a_mark_of_bots_is_left_out():
    assert await counted(marked("🙃", "🔥"), [PERSON, BOT, BOT]) == ([("🙃", 1), ("🔥", 3)], ["🙃"])
    assert await counted(marked("🫥", "👁️\u200d🗨️"), [BOT]) == ([], ["🫥", "👁️\u200d🗨️"])


@pytest.mark.parametrize("givers", [None, [BOT] * MAX_GIVERS])
async def test_a_mark_whose_givers_are_unknown_counts(givers):
    assert await counted(marked("🙃"), givers) == ([("🙃", 3)], ["🙃"])


async def test_few_are_asked_for_of_one_page():
    _, asked = await counted(marked(*["🙃"] * (MAX_LOOKUPS + 5)), [PERSON])
    assert len(asked) == MAX_LOOKUPS
