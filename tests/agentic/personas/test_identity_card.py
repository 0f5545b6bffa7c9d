from __future__ import annotations

import pytest

from agentic.personas.identity import IdentityCard, body_of, parse_identity


def test_a_whole_card() -> None:
    text = """\ufeff---\r
display_name: No\r
avatar: https://a.example/face.png\r
provider: anthropic\r
model: anthropic/claude-opus-5-5   # the large one\r
image_model: "4.10"\r
mode: chat\r
talkativeness: 0.7\r
color: "#D97757"\r
disclosure: 'This is an AI: it may be wrong.'\r
---\r
You are No.\r
"""
    assert parse_identity(text) == (
        IdentityCard(
            display_name="No",
            avatar="https://a.example/face.png",
            provider="anthropic",
            model="anthropic/claude-opus-5-5",
            image_model="4.10",
            mode="chat",
            talkativeness=0.7,
            color=0xD97757,
            disclosure="This is an AI: it may be wrong.",
        ),
        (),
    )
    assert body_of(text) == "You are No.\n"


@pytest.mark.parametrize(
    "text", [None, "", "You are Claude.", "---\n---\n", "---\ncolour:\n---\nx", "---\n# only\n---"]
)
def test_what_says_nothing_is_an_empty_card(text: str | None) -> None:
    assert parse_identity(text) == (IdentityCard(), ())


@pytest.mark.parametrize("written", ["#D97757", "'#d97757'", "0xD97757", "D97757", "#D97757  # orange"])
def test_a_color_may_be_written_as_people_write_it(written: str) -> None:
    """To YAML, what begins with # is a comment."""
    assert parse_identity(f"---\ncolor: {written}\n---\n")[0].color == 0xD97757


def test_a_wrong_field_is_told_with_its_line_and_the_others_count() -> None:
    card, problems = parse_identity(
        "---\nmodel: a\ntalkativeness: nan\nmode: loud\navatar: ../x.png\nmodel: b\nmodle: c\nimage_model: [d]\n"
        "display_name: " + "x" * 33 + "\n---\n"
    )
    assert card == IdentityCard(model="a")
    assert [problem.split(":")[1] for problem in problems] == ["3", "4", "5", "6", "7", "8", "9"]
    assert problems[0] == "identity.md:3: talkativeness: expected a finite number"
    expected = "expected an https address, or the name of a picture in this folder, such as avatar.png"
    assert problems[2] == f"identity.md:5: avatar: {expected}"
    assert problems[3] == "identity.md:6: model appears twice; the first is used"


@pytest.mark.parametrize(
    "avatar",
    ["http://a.b/c.png", "/etc/x.png", "a/b.png", "..png", "avatar.md", "file:x.png", "https://", "https:///a"],
)
def test_an_avatar_is_an_https_address_or_a_picture_in_the_folder(avatar: str) -> None:
    card, problems = parse_identity(f"---\navatar: {avatar}\n---\n")
    assert card.avatar is None
    assert len(problems) == 1


@pytest.mark.parametrize(
    "front",
    [
        "a: 'x",
        "[" * 5000,
        'model: "\\UFFFFFFFF"',
        'model: "\\uD800"',
        "- a",
        "a: &x [*x, *x]",
        "&a : b",
        "\x01",
        "a\n" * 9000,
    ],
    ids=lambda front: front[:8].encode("unicode_escape").decode(),
)
def test_front_matter_that_is_none_is_a_problem_and_no_crash(front: str) -> None:
    card, problems = parse_identity(f"---\n{front}\n---\nBody")
    assert card == IdentityCard()
    assert len(problems) == 1
    assert problems[0].startswith("identity.md:")


def test_front_matter_that_is_never_closed_is_told() -> None:
    assert parse_identity("---\nmodel: a\n") == (
        IdentityCard(),
        ("identity.md:1: the front matter has no closing ---",),
    )
