"""Clean the words and the emoji of an answer before they are posted.

Models copy the form of what they read: marks of messages (`[msg:123 3h ago] Grok: …`, agent_context/layout/render.py),
notes of reactions, pictures and changes, lines of tools, their own name before their words. Where one emoji is asked
for they write names, several, or words. Some write reasoning in marks, also inside of the requested form. Tables become
bullets (tables.py).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from agent_cogs.answer.model_artifacts import MOST_ROUNDS, begins_a_form, without_echoes, without_machinery
from agent_cogs.answer.tables import without_tables

_MARK = r"\[msg:\s*\d{1,20}[^\]\n]{0,120}\]"
_NAME = r"[^\s:\[\]()]+(?: [^\s:\[\]()]+){0,2}(?: \([^()\n]{1,60}\)){0,2}"  # as render.py writes a speaker
_MARK_AND_NAME = re.compile(rf"^[ \t]*{_MARK}[ \t]*(?:{_NAME}:(?:[ \t]+|$))?", re.MULTILINE)
_FIRST_MARK = re.compile(rf"\A{_MARK}[ \t]*")
_LABEL = re.compile(rf"{_NAME}:\s")
_MARK_INSIDE = re.compile(rf"[ \t]?{_MARK}")
_NOTES = re.compile(r"[ \t]{0,8}\[(?:reactions: [^\]\n]{0,400}|posted image: [^\n]{0,2000}?→[^\]\n]{0,600})\]")
# A note or a tool's line is removed with its mark and its further, indented lines.
_CHANGES = r"\[note:[^\]\n]{1,200}?(?:now (?:reads|has)|changed a message[^\]\n]{0,40})\]"
_COPIED_LINES = re.compile(rf"^(?:{_CHANGES}|\[(?:tool|system)\])[^\n]*(?:\n {{2}}[^\n]*)*\n?", re.MULTILINE)
_THOUGHT_MARK = re.compile(r"<(/?)(?:think(?:ing)?|reasoning)>", re.IGNORECASE)
_UNSEEN = frozenset({"Cc", "Cf", "Zs", "Zl", "Zp"})
_BLANK_LETTERS = frozenset("\u115f\u1160\u2800\u3164\uffa0")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_CUSTOM_EMOJI = re.compile(r"<a?:\w{2,32}:\d{15,20}>")
_SHORTCODE = re.compile(r":([a-z0-9_+-]{1,40}):")

# Unicode 16, emoji-data.txt. Those in _AS_PICTURE are shown as pictures by themselves; the other ones below U+10000
# need U+FE0F, and services know them as reactions only with it.
_AS_PICTURE = "⌚⌛⏩-⏬⏰⏳◽◾☔☕♈-♓♿⚓⚡⚪⚫⚽⚾⛄⛅⛎⛔⛪⛲⛳⛵⛺⛽✅✊✋✨❌❎❓-❕❗➕-➗➰➿⬛⬜⭐⭕"
_AS_TEXT = (
    "©®‼⁉™ℹ↔-↙↩↪⌨⏏⏭-⏯⏱⏲⏸-⏺Ⓜ▪▫▶◀◻◼☀-☄☎☑☘☝☠☢☣☦☪☮☯☸-☺♀♂♟♠♣♥♦♨♻♾⚒⚔-⚗⚙⚛⚜⚠⚧⚰⚱⛈⛏⛑⛓⛩⛰⛱⛴⛷-⛹✂✈✉✌✍✏✒✔✖✝✡✳✴❄❇❣❤➡⤴⤵⬅-⬇〰〽㊗㊙"
)
_ASTRAL = (
    "\U0001f004\U0001f0cf\U0001f170-\U0001f171\U0001f17e\U0001f17f\U0001f18e\U0001f191-\U0001f19a\U0001f201-\U0001f251"
)
_ASTRAL += "\U0001f300-\U0001f3fa\U0001f400-\U0001f64f\U0001f680-\U0001f6fc\U0001f7e0-\U0001f7f0\U0001f90c-\U0001faff"
_ONE = rf"(?:[{_AS_PICTURE}{_AS_TEXT}{_ASTRAL}]\ufe0f?[\U0001f3fb-\U0001f3ff]?)"
_FLAG = r"[\U0001f1e6-\U0001f1ff]{2}"
_KEYCAP = r"[0-9#*]\ufe0f?\u20e3"
_REGION = r"\U0001f3f4[\U000e0061-\U000e007a]{2,6}\U000e007f"
_EMOJI = re.compile(rf"{_FLAG}|{_KEYCAP}|{_REGION}|{_ONE}(?:\u200d{_ONE}){{0,6}}")
_NEEDS_SELECTOR = re.compile(rf"[{_AS_TEXT}]")

SHORTCODES = {
    "+1": "👍", "thumbsup": "👍", "thumbs_up": "👍", "-1": "👎", "thumbsdown": "👎", "thumbs_down": "👎",
    "fire": "🔥", "heart": "❤️", "red_heart": "❤️", "broken_heart": "💔", "blue_heart": "💙", "green_heart": "💚",
    "purple_heart": "💜", "sparkling_heart": "💖", "joy": "😂", "rofl": "🤣", "sob": "😭", "cry": "😢", "smile": "😄",
    "smiley": "😃", "grin": "😁", "grinning": "😀", "laughing": "😆", "sweat_smile": "😅", "wink": "😉", "blush": "😊",
    "heart_eyes": "😍", "kissing_heart": "😘", "sunglasses": "😎", "smirk": "😏", "thinking": "🤔",
    "thinking_face": "🤔", "neutral_face": "😐", "expressionless": "😑", "unamused": "😒", "rolling_eyes": "🙄",
    "eye_roll": "🙄", "flushed": "😳", "scream": "😱", "exploding_head": "🤯", "mind_blown": "🤯",
    "partying_face": "🥳", "nerd": "🤓", "nerd_face": "🤓", "clown": "🤡", "clown_face": "🤡",
    "skull": "💀", "ghost": "👻", "robot": "🤖",
    "alien": "👽", "poop": "💩", "pleading_face": "🥺", "melting_face": "🫠", "saluting_face": "🫡", "salute": "🫡",
    "shrug": "🤷", "facepalm": "🤦", "eyes": "👀", "clap": "👏", "pray": "🙏", "muscle": "💪", "wave": "👋",
    "raised_hands": "🙌", "ok_hand": "👌", "handshake": "🤝", "point_up": "☝️", "fist": "✊", "v": "✌️", "100": "💯",
    "tada": "🎉", "party_popper": "🎉", "sparkles": "✨", "star": "⭐", "star2": "🌟", "zap": "⚡", "boom": "💥",
    "rocket": "🚀", "bulb": "💡", "brain": "🧠", "popcorn": "🍿", "pizza": "🍕", "coffee": "☕", "beer": "🍺",
    "cake": "🎂", "trophy": "🏆", "crown": "👑", "gem": "💎", "moneybag": "💰", "chart_with_upwards_trend": "📈",
    "chart_with_downwards_trend": "📉", "warning": "⚠️", "white_check_mark": "✅", "check": "✅", "x": "❌",
    "question": "❓", "exclamation": "❗", "rainbow": "🌈", "sunny": "☀️", "snowflake": "❄️", "ocean": "🌊", "cat": "🐱",
    "dog": "🐶", "crystal_ball": "🔮", "books": "📚", "microphone": "🎤", "art": "🎨",
}  # fmt: skip


def clean_text(text: str | None, names: Collection[str] = (), prompt: Collection[str] = ()) -> str | None:
    """The words that may be posted, or None when none are left.

    `names` are the agent's own, `prompt` the lines of the prompt (model_artifacts.lines_of_prompt).
    """
    for _ in range(MOST_ROUNDS):  # a removal may join the halves of another mark
        before, text = text, _cleaned_once(text, names, prompt) if text is not None else None
        if text == before:
            break
    return text


def clean_prose(text: str, names: Collection[str] = (), prompt: Collection[str] = ()) -> str | None:
    """The words of an answer without the requested form; None where it holds anything but words.

    Reasoning in marks before it, and the agent's own mark and name, are removed as always.
    """
    marked = _CONTROL.sub("", _without_thoughts(text).replace("\r\n", "\n")).strip()
    named = _FIRST_MARK.sub("", marked)
    words = _without_name(named, names).strip()
    if not words or (named != marked and words == named and _LABEL.match(words)):  # as somebody else
        return None
    words = without_tables(words)
    return words if not begins_a_form(words) and clean_text(words, names, prompt) == words else None


def _cleaned_once(text: str, names: Collection[str], prompt: Collection[str]) -> str | None:
    text = _CONTROL.sub("", text.replace("\r\n", "\n"))
    text = without_echoes(without_machinery(_without_thoughts(text)), prompt)
    for pattern in (_COPIED_LINES, _MARK_AND_NAME, _NOTES, _MARK_INSIDE):
        text = pattern.sub("", text)
    text = without_tables(_without_name(text.strip(), names)).strip()
    return text if any(_is_seen(char) for char in text) else None


def _without_thoughts(text: str) -> str:
    """`<think>so …</think>Hello` → `Hello`. A mark that is only opened counts where no text is before it; one that is
    only closed, at a line's end, makes all before it reasoning."""
    kept, at, opened = "", 0, -1
    for mark in _THOUGHT_MARK.finditer(text):
        if not mark[1] and opened < 0:
            kept, opened = kept + text[at : mark.start()], mark.start()
        elif mark[1] and opened >= 0:
            at, opened = mark.end(), -1
        elif mark[1] and text[mark.end() : mark.end() + 1] in ("", "\n"):
            kept, at = "", mark.end()
    if opened >= 0:
        return kept + text[opened:] if kept.strip() else ""
    return kept + text[at:]


def _is_seen(char: str) -> bool:
    return unicodedata.category(char) not in _UNSEEN and char not in _BLANK_LETTERS


def _without_name(text: str, names: Collection[str]) -> str:
    """`**Claude:** Hello` → `Hello`; the name stays where nothing follows it."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if name)
    if not known:
        return text
    stars = r"[*_]{0,3}"
    prefix = rf"\A(?:{stars}(?:{known})(?: \(you\))?{stars}:{stars}\s+)+"
    return re.sub(prefix, "", text, flags=re.IGNORECASE)


def clean_emoji(text: str | None) -> str | None:
    """One emoji as services take it for a reaction, or None.

    A custom one stays `<:name:id>`; of several emoji the first one counts; a known `:shortcode:` becomes its emoji. An
    emoji among words is none.
    """
    text = (text or "").strip()
    if _CUSTOM_EMOJI.fullmatch(text):
        return text
    shortcode = _SHORTCODE.fullmatch(text.lower())
    if shortcode:
        return SHORTCODES.get(shortcode[1])
    found = [match[0] for match in _EMOJI.finditer(text[:200])]
    if not found or _EMOJI.sub("", text).strip("\ufe0f \t\n"):
        return None
    first = found[0]
    return first + "\ufe0f" if len(first) == 1 and _NEEDS_SELECTOR.match(first) else first
