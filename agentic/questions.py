"""Whether a person's message asks something, in any language, without a model.

A question mark in any script makes a question. So do words that only questions begin with, such as "why do" or
"pourquoi", and in some languages words that end a question. If a language is missing, its people only need the question
mark: add a line for yours. A wrong guess costs one answer.
"""

from __future__ import annotations

import re

QUESTION_MARKS = (
    *("?", "\uff1f", "\ufe56", "\ufe16"),  # also full-width, small, and vertical
    *("\u061f", "\u037e", "\u055e", "\u1367"),  # Arabic, Greek, Armenian, Ethiopic
    *("\u2cfa", "\u2cfb", "\ua60f", "\ua6f7", "\u1945"),  # Coptic, Vai, Bamum, Limbu
    *("\u203d", "\u2047", "\u2048", "\u2049", "\u2753", "\u2754"),  # interrobang, doubled, emojis
)
_NO_WORDS = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|https?://\S+|<[^<>\s]{2,}>", re.DOTALL)  # code, addresses, marks
_GREEK = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]\s?;")  # typed with the Latin semicolon, which looks the same
_MARKS = re.compile(rf"[{''.join(QUESTION_MARKS)}\u00bf]")
_LEADS = r"(?:(?:so|and|but|ok|okay|well|hey|wait|und|aber|also|et|mais|y|pero|e|ma|en|maar|а|но|и)[\s,]+)?"
_BEGINNINGS = (
    r"(?:why|how|who|whom|whose|which|when|where|what)(?:'s|’s|'re|’re)?\s+(?:is|are|was|were|do|does|did|can|could|will"
    r"|would|should|has|have|about|if|makes|happens)\b",
    r"(?:is|are|was|were|do|does|did|can|could|will|would|should|has|have|isn't|aren't|don't|doesn't)\s+(?:you|we|they"
    r"|it|he|she|there|this|that|anyone|anybody|the|any)\b",
    r"(?:warum|wieso|weshalb|woher|wozu)\b",
    r"(?:wie|wer|was|wann|wo|welche[rsn]?)\s+(?:ist|sind|war|waren|wird|kann|können|könnte|soll|sollte|hat|haben|macht"
    r"|meint|meinst|denkt|denkst|würde|würdest|würdet|geht|kommt|passiert|sagt|sagst)\b",
    r"(?:ist|sind|kann|kannst|könnt|hat|hast|habt|glaubst|glaubt|meinst|meint|denkst|denkt|würdest|würdet|gibt)\s+(?:du"
    r"|ihr|sie|es|das|man|wir|jemand)\b",
    r"(?:pourquoi|est-ce\s+qu|qu['’]est-ce|qui\s+est-ce|comment|combien)",
    r"(?:por\s+qué|cómo|quién|quiénes|cuándo|dónde|cuál|cuáles|cuánto)\b",
    r"(?:por\s+que|por\s+quê|quem|quando\s+é|onde|qual|quais|será\s+que)\b",
    r"(?:perché|come\s+mai|chi\s+(?:è|ha)|che\s+cosa|cosa\s+(?:pensi|pensate)|quanto\s+costa)\b",
    r"(?:waarom|hoe|wie|wat|waar|wanneer)\s+(?:is|zijn|kan|doe|doet|denk|denken|vind|vinden|moet|zou|heeft)\b|waarom\b",
    r"(?:czy|dlaczego|jak\s+to|kto|gdzie|kiedy)\b",
    r"(?:почему|зачем|как\s+(?:вы|ты|это)|кто|что\s+(?:вы|ты)|когда\s+(?:вы|ты|это)|где|сколько|разве|неужели)\b",
    r"(?:هل|لماذا|كيف|متى|أين)\s",
    r"(?:האם|למה|מדוע|איך)\s",
    r"(?:क्या|क्यों|कैसे|कौन)\s",
    r"(?:apakah|mengapa|kenapa|bagaimana|siapa|tại\s+sao|vì\s+sao|làm\s+sao)\b",
    r"왜\s",
)
_SENTENCE = re.compile(r"([^.!\n]*+)(!?)")  # and whether it is an exclamation, as in "What are you, mad!"
_CLAUSE_END = re.compile(r"[…,:;]")
_BEGINS = re.compile(rf"(?:^|@\S{{1,40}} ){_LEADS}(?:{'|'.join(_BEGINNINGS)})", re.IGNORECASE)  # after a name, too
_ENDS = re.compile(
    r"(?:(?:です|ます|ません|でした|ました|でしょう|だろう|の)か|かな|[吗嗎呢]|까|나요|는가|ไหม|มั้ย|หรือเปล่า"
    r"|\bm[ıiuü](?:s[ıiuü]n(?:[ıiuü]z)?|y[ıiuü]z|d[ıiuü]r)|\bm[ıü])(?=[\s.。．…~]*$)",
    re.IGNORECASE | re.MULTILINE,
)
_ANYWHERE = re.compile(r"为什么|為什麼|怎么样|怎麼樣|なぜ|どうして|ทำไม")


def is_question(text: str) -> bool:
    """Whether a person's message asks something. A message of marks alone, such as "???", asks nothing."""
    said = _NO_WORDS.sub(" ", text).strip()
    if not any(char.isalnum() for char in said):
        return False
    return any(sign.search(said) for sign in (_MARKS, _GREEK, _ENDS, _ANYWHERE)) or _begins_a_question(said)


def _begins_a_question(text: str) -> bool:
    """Whether a clause begins as a question does, as in "Claude, why do". Exclamations ask nothing."""
    return any(
        _BEGINS.search(" ".join(clause.split()))
        for sentence in _SENTENCE.finditer(text)
        if not sentence[2]
        for clause in _CLAUSE_END.split(sentence[1])
    )
