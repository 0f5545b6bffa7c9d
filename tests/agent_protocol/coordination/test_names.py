import pytest

from agent_protocol.coordination.names import names_in

SHOWN = {"chatgpt": "ChatGPT", "claude": "Claude", "ada": "Ada Lovelace", "hana": "花子", "c3": "C++"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("claude, what do you think?", ("claude",)),
        ("CLAUDE and ＣｈａｔＧＰＴ!", ("chatgpt", "claude")),
        ("Claude's idea, not Claudette's", ("claude",)),
        ("Claudette is somebody else", ()),
        ("ask Ada Lovelace", ("ada",)),
        ("花子さん、どう思う？", ("hana",)),
        ("I like C++, really", ("c3",)),
        ("", ()),
    ],
)
def test_names_are_found_as_whole_words_in_any_case_and_script(text, found):
    assert names_in(text, SHOWN) == found
