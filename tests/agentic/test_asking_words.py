"""Whether a person's message asks something, in any language."""

import pytest

from agentic.questions import is_question

ASKED = (
    "And milk?",
    "what do you make of that",
    "Claude, why do you think so",
    "so how is that fair",
    "@Claude is it true that ships float",
    "can you give an example please",
    "Really?!",
    "You say so‽",
    "Ist das wirklich so?",
    "warum nicht Tee",
    "was denkst du über Milch",
    "Pourquoi pas",
    "est-ce que c'est vrai",
    "¿Y la leche",
    "cómo lo sabes",
    "Τι πιστεύεις;",
    "Τι πιστεύεις\u037e",
    "ماذا عن الشاي؟",
    "هل هذا صحيح",
    "お茶はどうですか",
    "お茶はどうですか。",
    "本当？",
    "你喜欢茶吗",
    "为什么是茶",
    "차는 어떻습니까",
    "Почему не чай",
    "czy to prawda",
    "Sence bu doğru mu?",
    "çay sever misin",
    "ինչու՞ ոչ",
    "ஏன்?",
    "जा रहे हो क्या?",
)
SAID = (
    "hi",
    "lol",
    "pizza",
    "what a goal",
    "how cute",
    "when we were kids we drank tea",
    "where I live, tea is cold",
    "What are you talking about, this is great!",
    "Claude is right",
    "???",
    "?",
    "❓",
    "see https://example.com/?q=tea",
    "`a ? b : c` is how you write it",
    "Wie schön",
    "Was für ein Tag",
    "quand j'étais petit",
    "qué bueno",
    "como siempre",
    "なるほど",
    "いくらか飲んだ",
    "好茶",
    "mi casa es su casa",
    "Καλημέρα",
    "tea; milk; sugar",
    "да, именно",
    "",
)


@pytest.mark.parametrize("text", ASKED)
def test_a_question_is_found_with_its_mark_or_by_its_first_or_last_words(text):
    assert is_question(text)


@pytest.mark.parametrize("text", SAID)
def test_a_remark_is_no_question(text):
    assert not is_question(text)
