"""The closing card: who holds what, the best lines, who convinced most; always one message that pings nobody."""

import pytest

from agentic.chat.splitting import MAX_MESSAGE, length
from agentic.rooms.closing import CardTexts, closing_card, cut, first_sentences, prompt_of, votes_of
from agentic.rooms.judge import Verdict
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
    return closing_card(room, posts, CardTexts(first_sentences(room, posts)))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("short enough", "short enough"),
        ("she said her last word", "she said her…"),
        ("she said, but not now", "she said…"),
        ("she said so. Later", "she said so…"),
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
    assert text.endswith("**Most votes**: Ada, 2 votes (Grok 1, The Sceptic 0).")


def seated(format, moderator=None, **sides):
    members = tuple(RoomMember(name=name, shown=name.title(), side=side) for name, side in sides.items())
    return ROOM.model_copy(update={"format": format, "moderator": moderator, "members": members, "left": ()})


@pytest.mark.parametrize(
    ("room", "positions"),
    [
        (seated("debate", "eve", ada="for", grok="against", eve=""), {"ada": "I'm for it.", "grok": "I'm not."}),
        (seated("panel", "eve", ada="", grok="", eve=""), {"ada": "Grok was fair.", "grok": "Ada was, too."}),
        (seated("interview", ada="", grok="guest", eve=""), {"grok": "Ada was, too."}),
        (seated("open", "eve", ada="", eve=""), {"ada": "Grok was fair.", "eve": "Thanks."}),
    ],
    ids=["debate", "panel", "interview", "open"],
)
def test_a_position_is_where_a_member_stands_and_those_who_only_ask_have_none(room, positions):
    texts = ["I'm for it. So.", "I'm not. No.", "Ada?", "Grok was fair. Still.", "Ada was, too. Still.", "Thanks. Bye."]
    posts = [
        post(at, name, text=text)
        for at, (name, text) in enumerate(zip(("ada", "grok", "eve") * 2, texts, strict=True), 1)
    ]
    assert first_sentences(room, posts) == positions
    assert [*prompt_of(room, posts).schema["properties"]["positions"]["properties"]] == [*positions]


@pytest.mark.parametrize(
    ("posts", "with_sides", "without"),
    [
        ((), "**Nobody voted**, so there's no winner.", "**Nobody voted**."),
        ((post(1, "ada"), post(2, "grok")), "**Nobody voted**, so there's no winner.", "**Nobody voted**."),
        (
            (post(1, "ada", 71), post(2, "grok", 72)),
            "**A tie**: Ada and Grok, 1 vote each (Eve 0).",
            "**Most votes**: Ada and Grok, 1 vote each (Eve 0).",
        ),
        (
            (post(1, "ada", 71), post(2, "ada", 71)),
            "**Most convincing**: Ada, 2 votes (Grok 0, Eve 0).",
            "**Most votes**: Ada, 2 votes (Grok 0, Eve 0).",
        ),
    ],
)
def test_only_a_debate_with_sides_has_a_winner(posts, with_sides, without):
    assert card(*posts, room=seated("debate", ada="for", grok="against", eve="for")).endswith(with_sides)
    for format_ in ("open", "panel", "interview"):
        assert card(*posts, room=seated(format_, ada="", grok="guest", eve="")).endswith(without), format_


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
    texts = CardTexts({f"m{n}": character * 500 for n in range(MAX_MEMBERS)}, (), ("y" * 140,) * 2, ("z" * 140,) * 2)
    verdict = Verdict(character * 200, character * 900, {f"m{n}": 5.5 for n in range(MAX_MEMBERS)})
    text = closing_card(room, posts, texts, verdict, "page " * 20)
    assert length(text) <= MAX_MESSAGE
    assert "Most votes" in text


def test_what_is_quoted_is_words_and_no_markdown():
    text = card(post(1, "ada", 71, text="# Big\n> quote ||spoiler|| [a](https://evil.example/x) <@5> `x`"))
    quoted = next(line for line in text.splitlines() if line.startswith("> "))
    assert quoted == "> Big quote spoiler a @5 x"


def test_what_is_quoted_keeps_formulas_readable():
    said = "So `a_1 < b_2`:\n```latex\nx_i = 2*3 * 4\n```\n_Really_ **~5** ~~not~~ in C#, ```x = 1```"
    text = card(post(1, "ada", 71, text=said))
    quoted = next(line for line in text.splitlines() if line.startswith("> "))
    assert quoted == "> So a_1 < b_2: x_i = 2*3 * 4 Really ~5 not in C#, x = 1"


def test_it_has_question_sides_agreement_what_stayed_open_and_where_all_of_it_is():
    sides = {"ada": "for", "grok": "against"}
    members = tuple(member.model_copy(update={"side": sides[member.name]}) for member in ROOM.members)
    room = ROOM.model_copy(update={"members": members, "topic": "Is a *tomato* a fruit?", "left": ()})
    posts = (post(1, "ada"), post(2, "grok"))
    texts = CardTexts({"ada": "It is.", "grok": "It isn't."}, (), ("Cooks decide.",), ("Who asked botanists?",))
    text = closing_card(
        room, posts, texts, Verdict("Gemini (google/g)", "Ada was clearer.", {"for": 8, "against": 6.5}), "See P."
    )
    assert text.split("\n\n")[0].splitlines()[1] == r"**Is a \*tomato\* a fruit?**"
    assert "**Ada** (for): It is.\n**Grok** (against): It isn't." in text
    assert text.endswith(
        "**The judge**, Gemini (google/g): for 8, against 6.5. Ada was clearer.\n\n"
        "**Agreed**: Cooks decide.\n\n**Still open**: Who asked botanists?\n\nSee P."
    )
    assert "Gemini (google/g), gave no verdict." in closing_card(room, posts, texts, Verdict("Gemini (google/g)"))
