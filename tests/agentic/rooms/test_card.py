"""The closing card: who holds what, the best lines, who convinced most; always one message that pings nobody."""

import pytest

from agentic.chat.splitting import MAX_MESSAGE, length
from agentic.rooms.closing import closing_card, cut, first_sentences, votes_of
from agentic.rooms.room_bot import RoomPost
from agentic.state.rooms import MAX_MEMBERS, Room, RoomMember

ROOM = Room(
    thread_id=50,
    channel_id=5,
    guild_id=7,
    conversation_id="c",
    topic="tomatoes",
    members=(RoomMember(name="ada", shown="Ada"), RoomMember(name="grok", shown="Grok")),
    left=(RoomMember(name="sceptic", shown="The Sceptic"),),
    status="closed",
    why="turn_limit",
    turn_number=3,
)


def post(number, agent, *voters, text="A **tomato** is a fruit. Always."):
    return RoomPost(number, agent, text, frozenset(voters))


def card(*posts, room=ROOM):
    return closing_card(room, posts, first_sentences(room, posts))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("short enough", "short enough"),
        ("she said her last word", "she said her…"),
        ("she said, but not now", "she said…"),
        ("Donaudampfschifffahrt", "Donaudampfsc…"),
        ("a Donaudampfschifffahrt", "a Donaudampf…"),
    ],
)
def test_what_is_too_long_is_cut_after_a_word(text, shown):
    assert cut(text, 13) == shown


def test_it_says_why_positions_best_lines_and_who_convinced_most():
    text = card(post(1, "ada", 71, 72), post(2, "grok", 71, text="No! It is a `vegetable`."), post(3, "sceptic"))
    assert text.startswith("🫥 **This room is closed** after 3 turns: it used all of its turns.")
    assert "**Ada**: A tomato is a fruit.\n**Grok**: No!\n**The Sceptic**: A tomato is a fruit." in text
    assert "> A tomato is a fruit. Always.\n👍 2, Ada: <https://discord.com/channels/7/50/1>" in text
    assert text.index("👍 2, Ada") < text.index("👍 1, Grok")
    assert text.endswith("**Most convincing**: Ada, 2 votes (Grok 1, The Sceptic 0).")


@pytest.mark.parametrize(
    ("posts", "verdict"),
    [
        ((), "**Nobody voted**, so there's no winner."),
        ((post(1, "ada"), post(2, "grok")), "**Nobody voted**, so there's no winner."),
        ((post(1, "ada", 71), post(2, "grok", 72)), "**A tie**: Ada and Grok, 1 vote each (The Sceptic 0)."),
        ((post(1, "ada", 71), post(2, "ada", 71)), "**Most convincing**: Ada, 2 votes (Grok 0, The Sceptic 0)."),
    ],
)
def test_a_tie_is_a_tie_and_no_votes_are_said(posts, verdict):
    assert card(*posts).endswith(verdict)


def test_votes_for_agents_that_are_no_members_do_not_count():
    assert votes_of(ROOM, [post(1, "stranger", 71)]) == {"ada": 0, "grok": 0, "sceptic": 0}


def test_a_member_that_said_nothing_has_no_position():
    assert "**Grok**" not in card(post(1, "ada")).partition("**Nobody")[0]


@pytest.mark.parametrize("character", ["x", "🫠", "<", "*", "\n"])
def test_it_is_one_message_however_long_posts_and_names_are(character):
    members = tuple(RoomMember(name=f"m{n}", shown=character * 200) for n in range(MAX_MEMBERS))
    room = ROOM.model_copy(
        update={
            "members": members,
            "left": tuple(RoomMember(name=f"l{n}", shown=character * 200) for n in range(MAX_MEMBERS)),
        }
    )
    posts = [post(n, f"m{n}", *range(n + 1), text=character * 2000) for n in range(MAX_MEMBERS)]
    text = closing_card(room, posts, {f"m{n}": character * 500 for n in range(MAX_MEMBERS)})
    assert length(text) <= MAX_MESSAGE
    assert "Most convincing" in text


def test_what_is_quoted_is_words_and_no_markdown():
    text = card(post(1, "ada", 71, text="# Big\n> quote ||spoiler|| [a](https://evil.example/x) <@5> `x`"))
    quoted = next(line for line in text.splitlines() if line.startswith("> "))
    assert quoted == "> Big quote spoiler a @5 x"
