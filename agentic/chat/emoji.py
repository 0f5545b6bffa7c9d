"""Find emoji in text and write them in the form that Discord takes for a reaction.

Discord knows an emoji by its fully qualified sequence (Unicode's emoji-test.txt) and refuses other spellings of the
same emoji. Models write all of them, shortcodes too. The data is the `emoji` package's, loaded with the first reaction.
"""

from __future__ import annotations

import re
from functools import cache

_SELECTORS = re.compile("[\ufe0e\ufe0f]")
_TONES = re.compile("[\U0001f3fb-\U0001f3ff]")
_AROUND = "\"'`*_.,!()[]“”‘’„«»\u200b\u200e\u200f\u2060\ufeff "  # quotes, marks, and invisible signs around an emoji
_SKIPPED = re.compile("[\\s\u200d\u20e3\U0001f3fb-\U0001f3ff\U0001f9b0-\U0001f9b3]+")  # loose parts of sequences
_REGIONAL_A = 0x1F1E6
_LONGEST = 12  # code points of a sequence without selectors
_TONED = re.compile(r":?(.+?)(?:_tone|::skin-tone-)([1-6]):?")
_FLAG_NAME = re.compile(r"flag[_-]([a-z])([a-z])")
_LETTER_NAME = re.compile(r"regional_indicator_([a-z])")

# Discord's own names, and names that models make up, for emoji that the package knows by other names.
_OTHER_NAMES = {
    "slight_smile": "slightly_smiling_face", "slight_frown": "slightly_frowning_face", "frowning2": "frowning_face",
    "upside_down": "upside_down_face", "hugging": "hugs", "cowboy": "cowboy_hat_face", "vulcan": "vulcan_salute",
    "smiling_face_with_3_hearts": "smiling_face_with_hearts", "call_me": "call_me_hand", "thumbup": "+1",
    "thumbdown": "-1", "fingers_crossed": "crossed_fingers", "hand_splayed": "hand_with_fingers_splayed",
    "head_bandage": "face_with_head-bandage",
    "first_place": "1st_place_medal", "second_place": "2nd_place_medal", "third_place": "3rd_place_medal",
    "medal": "sports_medal", "skull_crossbones": "skull_and_crossbones", "speech_left": "left_speech_bubble",
    "flag_white": "white_flag", "flag_black": "black_flag", "hammer_pick": "hammer_and_pick",
    "desktop": "desktop_computer", "frame_photo": "framed_picture", "satellite_orbital": "satellite",
    "eject": "eject_button", "play_pause": "play_or_pause_button", "track_next": "next_track_button",
    "track_previous": "last_track_button", "atom": "atom_symbol",
    "cross": "latin_cross", "cloud_rain": "cloud_with_rain", "cloud_snow": "cloud_with_snow",
    "cloud_lightning": "cloud_with_lightning", "cloud_tornado": "tornado",
    "thunder_cloud_rain": "cloud_with_lightning_and_rain", "umbrella2": "umbrella", "snowman2": "snowman",
    "white_sun_small_cloud": "sun_behind_small_cloud", "white_sun_cloud": "sun_behind_large_cloud",
    "nerd": "nerd_face", "clown": "clown_face", "money_mouth": "money_mouth_face", "zipper_mouth": "zipper-mouth_face",
    "thermometer_face": "face_with_thermometer", "rolling_eyes": "face_with_rolling_eyes",
    "eye_roll": "face_with_rolling_eyes", "mind_blown": "exploding_head", "salute": "saluting_face",
    "check": "white_check_mark", "checkmark": "white_check_mark", "laugh": "laughing", "party": "tada",
    "wink_face": "wink", "thumbs-up": "+1", "thumbs-down": "-1",
}  # fmt: skip


def reaction_emoji(text: str) -> str | None:
    """Return the first emoji of a text that consists of emoji (or is one shortcode), as Discord accepts it; else None.

    Quotation marks, formatting, and other signs around it don't matter.
    """
    text = text.strip()
    if _SELECTORS.sub("", text) not in _by_characters():
        text = text.strip(_AROUND)
    if len(text) > 2 and text.startswith(":") and text.endswith(":"):
        return _by_shortcode(text[1:-1].lower())
    found = _emoji_sequence(text)
    return found[0] if found else None


def is_reaction_emoji(text: str) -> bool:
    """Return whether Discord accepts the text, as it is, for a reaction with a Unicode emoji."""
    return _by_characters().get(_SELECTORS.sub("", text)) == text


def _emoji_sequence(text: str) -> list[str]:
    """Return the emoji of a text that has nothing else; [] if it has anything else. A sequence that Unicode doesn't
    know loses its skin tones if Unicode knows it then (families), or is split into its parts."""
    table = _by_characters()
    rest = _SELECTORS.sub("", text[:200])
    if rest not in table and (toneless := _TONES.sub("", rest)) in table:
        return [table[toneless]]
    found: list[str] = []
    at = 0
    while at < len(rest):
        size = next((n for n in range(min(_LONGEST, len(rest) - at), 0, -1) if rest[at : at + n] in table), 0)
        skipped = None if size else _SKIPPED.match(rest, at)
        if size:
            found.append(table[rest[at : at + size]])
            at += size
        elif skipped:
            at = skipped.end()
        else:
            return []
    return found


def _by_shortcode(name: str) -> str | None:
    if flag := _FLAG_NAME.fullmatch(name):
        letters = "".join(chr(_REGIONAL_A + ord(letter) - ord("a")) for letter in flag.groups())
        return _by_characters().get(letters)
    if letter := _LETTER_NAME.fullmatch(name):
        return chr(_REGIONAL_A + ord(letter[1]) - ord("a"))
    if toned := _TONED.fullmatch(name):
        plain = _by_shortcode(toned[1])
        tone = int(toned[2]) - (2 if "skin-tone" in name else 1)  # Slack counts from 2, Discord from 1
        if plain is None or not 0 <= tone <= 4:
            return plain
        return _by_characters().get(_SELECTORS.sub("", plain) + chr(0x1F3FB + tone), plain)
    names = _by_name()
    spellings = (name, _OTHER_NAMES.get(name, ""), name.replace("-", "_"), re.sub("^flag[_-]", "", name))
    return next((names[one] for one in spellings if one in names), None)


@cache
def _by_characters() -> dict[str, str]:
    """Return every emoji without its variation selectors → its fully qualified form."""
    from emoji import EMOJI_DATA, STATUS  # 30 ms and 9 MB, not needed before the first reaction

    qualified = (one for one, data in EMOJI_DATA.items() if data["status"] == STATUS["fully_qualified"])
    table = {_SELECTORS.sub("", one): one for one in qualified}
    return table | {chr(_REGIONAL_A + n): chr(_REGIONAL_A + n) for n in range(26)}  # single letters, on Discord only


@cache
def _by_name() -> dict[str, str]:
    """Return the emoji by shortcode, without colons. Aliases of GitHub and Discord win over Unicode's names."""
    from emoji import EMOJI_DATA

    table = _by_characters()
    known = [(data, one) for one, data in EMOJI_DATA.items() if table.get(_SELECTORS.sub("", one)) == one]
    names = {data["en"].strip(":").lower(): one for data, one in known}
    return names | {alias.strip(":").lower(): one for data, one in known for alias in data.get("alias", ())}
