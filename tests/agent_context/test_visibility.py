import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_context.visibility import hidden_by_text


@pytest.mark.parametrize(
    ("content", "hidden"),
    [
        ("hello", False),
        ("", False),
        (".config claude", True),
        (". a note", True),
        (".", True),
        ("..", False),
        ("... well", False),
        ("🙃 never mind", True),
        ("🫥", True),
        ("never mind 🙃", False),
        ("m continue", True),
        ("m", False),
        ("maybe so", False),
        ("<@21> .config", True),
        ("<@!21> <@&22>\n .history", True),
        ("<@21>m continue", True),
        ("<@21> ... well", False),
        ("<#5> .hidden", False),
        ("  .spaces before", True),
    ],
)
def test_what_begins_like_a_command_or_with_a_hide_mark_is_hidden(content, hidden):
    assert hidden_by_text(content) is hidden


@given(st.text(), st.integers(1, 2**63), st.sampled_from(["<@{}>", "<@!{}>", "<@&{}>"]))
def test_a_mention_in_front_changes_nothing(content, someone, markup):
    assert hidden_by_text(f"{markup.format(someone)} {content}") == hidden_by_text(content)
