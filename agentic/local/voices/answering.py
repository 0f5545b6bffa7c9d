"""What a scripted voice says to people: it greets, jokes, draws, chooses, explains the program, or says what it is.

A message's kind is a section of the answers' files. A note under the first answer to a person, and under every sixth
after that, says that the line was written in advance, and what to set for a real answer. In a room's thread, a voice
takes up a question in character and without a note: the terminal has said at the start what a real answer needs.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from agentic.local.voices.scenes import Heard, answers_of
from agentic.local.voices.turn import Turn
from agentic.local.voices.wording import capital, first_sentence, phrase, plain

NOTE = "scripted line"
NOTE_EVERY = 6  # answers to a person
MAX_READ = 2_000  # characters of a message
MAX_QUOTE = 100  # characters of a person's words, or of a task
SHORT = 6  # words of a greeting, a thank-you, or a goodbye that is nothing else
ABOUT_THIS = ("what", "cost", "key", "maker", "private", "server")  # kinds of questions about the program
TAKEN_UP = ("question", "help", *ABOUT_THIS)  # kinds of questions that are answered in character in a room's thread
GENTLE_THEMES = ("vent", "spiritual")

_LINK = re.compile(r"https?://")
_WORD = re.compile(r"[^\W_]")
_KINDS = tuple(
    (kind, re.compile(pattern, re.I))
    for kind, pattern in (
        (
            "crisis",
            r"\b(?:kill(?:ing)? myself|suicid\w*|end (?:my|it) (?:life|all)|want to die|wanna die|hurt(?:ing)? myself"
            r"|harm(?:ing)? myself|self.harm|no reason to live)\b",
        ),
        (
            "sad",
            r"\b(?:i(?:'m|’m| am| feel)(?: \w+)? (?:sad|lonely|depressed|heartbroken|miserable|hopeless|grieving|scared"
            r"|afraid|exhausted|overwhelmed)|my\b.{0,40}\b(?:died|passed away|is dying)|broke up with me"
            r"|(?:nobody|no one)(?: ever| really)? (?:listens|likes|loves|cares|understands)|lost my (?:job|\w*mother"
            r"|\w*father|\w*mum|\w*mom|\w*dad|brother|sister|wife|husband|partner|friend|dog|cat|baby))\b",
        ),
        ("draw", r"\b(?:draw|paint|sketch)(?: me| us)?\s+(?P<x>.+)|\b(?:picture|image|drawing) of\s+(?P<y>.+)"),
        (
            "sum",
            r"^(?:what(?:'s|’s| is| are) )?(?P<left>\d{1,6}) ?(?P<sign>[-+*x×/]|plus|minus|times)"
            r" ?(?P<right>\d{1,6})\W*$",
        ),
        ("joke", r"\b(?:tell|know|another|any|got|good|make)\b.*\bjokes?\b|^jokes?\b|\bmake (?:me|us) laugh\b"),
        (
            "who",
            r"\b(?:who|what) (?:exactly |really )?are (?:you|the other bots)\b|\byour name\b|\bintroduce yourself\b"
            r"|\bare you (?:really )?(?:an? )?(?:real|human|ai|robot|bot|scripted|script|person|machine|llm|model)\b"
            r"|\bwhat (?:ai |language )?model are you\b",
        ),
        (
            "what",
            r"\bwhat(?: is|'s|’s) (?:this|going on|happening|agentic)\b|\bwhere am i\b"
            r"|\bhow does (?:this|it) (?:all )?work\b",
        ),
        (
            "how",
            r"\bhow (?:are|r) (?:you|u)\b(?! made)|\bhow(?:'s|’s| is) (?:it going|life)\b|\bwhat(?:'s|’s| is) up\b"
            r"|\bhow do you do\b",
        ),
        ("stop", r"\bhow (?:do|can) i (?:stop|leave|quit|exit|end|mute|silence)\b"),
        (
            "help",
            r"^(?:please )?help(?: me)?[?!. ]*$|^(?:can|could) you help(?: me)?[?!. ]*$"
            r"|\bwhat (?:can|do|should) (?:you|i) do(?: here)?[?!. ]*$|\bhow do i (?:use|start)\b"
            r"|^(?:i(?:'m|’m| am)|im) bored\b",
        ),
        (
            "cost",
            r"\b(?:how much|what) (?:does|do|will|would) (?:it|this|you|that) (?:all )?cost\b"
            r"|\bhow much (?:is|are) (?:it|this|you)\b|\b(?:is|are) (?:it|this|you) (?:really )?free\b"
            r"|\bdo i (?:have|need) to pay\b|\bhow expensive\b",
        ),
        (
            "key",
            r"\b(?:ollama|lm studio|llama\.?cpp|vllm|llama|mistral|deepseek|gpt-?\d\S*|api keys?|real answers?|openai"
            r"|anthropic|local models?|own model)\b|\b(?:which|what|another|different|real) (?:ai |language )?model\b",
        ),
        ("maker", r"\bwho (?:made|built|created|wrote|programmed|develops?|developed|owns|runs) (?:you|this)\b"),
        (
            "private",
            r"\b(?:is|are) (?:this|it|my \w+) (?:really )?(?:private|safe|secure|public|stored|saved)\b|\bmy data\b"
            r"|\bwho (?:can )?(?:see|sees|read|reads)\b|\b(?:see|read|store|save|keep) my (?:messages?|chats?|data)\b",
        ),
        (
            "server",
            r"\b(?:on|to|in|into) (?:my|our|a|the) (?:\w+ )?(?:discord|server)\b|\binvite you\b|\breal discord\b",
        ),
    )
)
_BRIEF = tuple(
    (kind, re.compile(pattern, re.I))
    for kind, pattern in (
        ("stop", r"^(?:please |pls |ok |okay )?(?:stop|shut up|quiet|be quiet|silence|enough|pause|quit|leave|exit)\b"),
        (
            "thanks",
            r"\b(?:thanks|thank you|thx|cheers|ty|good bot|love (?:you|this|it)|(?:this|that) is (?:great|fun))\b",
        ),
        ("bye", r"\b(?:bye|goodbye|good night|see you|see ya|cya|later)\b"),
        (
            "greet",
            r"^(?:hi|hello|hey|heya|hiya|yo|howdy|hola|hallo|bonjour|ciao|greetings"
            r"|good (?:morning|evening|afternoon|day))\b",
        ),
        (
            "nod",
            r"^(?:(?:(?:ha){1,9}|lol|lmao|wow|ok|okay|k|nice|great|good|cool|yes|yep|yeah|no|nope|sure|hm{1,9}|oh|ah|same"
            r"|true|right|fine|agreed|exactly|indeed|interesting)\b\W{0,9}){1,3}$",
        ),
        ("empty", r"^(?:test|testing|ping)\b"),
    )
)
_ASKED = re.compile(r"(?<![^?!.])\s*+([^?!.\s][^?!.]*+\?)")
_OR = re.compile(
    r"^(?:[^,:]*(?:[,:]|\b(?:rather|prefer|better|pick|choose|want|take)\b))?\s*"
    r"(?P<a>[^,:?]+?),? or (?P<b>[^,:?]+)\??$",
    re.I,
)
_FACT = re.compile(
    r"^(?:is|are|was|were|do|does|did|can|should|has|have|had|who|when|where|how|why|what|which)\b", re.I
)
_QUESTION = re.compile(
    r"^(?:and |so |but |well |please |let's |could you |can you )?(?:what|why|how|when|where|who|whose|which|is|are|was"
    r"|were|do|does|did|can|could|will|would|should|has|have|may|might|tell|explain|write|translate|summari[sz]e|find"
    r"|look|search|give|make|show|list|compare|recommend|suggest|describe|define|remember|read|check|solve)\b",
    re.I,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Understood:
    """A message's `kind`; `x`: the words that an answer may use; `options`: those of a choice."""

    kind: str
    x: str = ""
    options: tuple[str, ...] = ()


def understand(text: str, names: Iterable[str] = (), *, files: bool = False) -> Understood:
    """Read a person's message without mentions of `names`. `files`: something is attached."""
    said = plain(text, tuple(names)).lstrip(",:;- ")
    if not _WORD.search(said):
        return Understood("unseen" if files or _LINK.search(text) else "empty")
    asks = "?" in said or _QUESTION.match(said) is not None
    for kind, pattern in _KINDS:
        if kind in ABOUT_THIS and not asks:
            continue
        if match := pattern.search(said[:MAX_READ]):
            wanted = match["x"] or match["y"] if kind == "draw" else ""
            result = _calculate(match["left"], match["sign"].lower(), match["right"]) if kind == "sum" else ""
            return Understood(kind, result or phrase(re.sub(r",? please\b", "", wanted or "", flags=re.I), MAX_QUOTE))
    if files or _LINK.search(text):
        return Understood("unseen")
    if len(said.split()) <= SHORT and "?" not in said.rstrip("?!. "):
        for kind, pattern in _BRIEF:
            if pattern.search(said):
                return Understood(kind)
    match = _OR.match(said) if len(said) <= MAX_QUOTE else None
    if match and not _FACT.match(match["a"].strip()):
        return Understood("choice", options=(phrase(match["a"]), phrase(match["b"])))
    if asks:
        return Understood("question")
    quote = first_sentence(said)
    return Understood("statement", quote if len(quote) <= MAX_QUOTE else "")


def question_in(said: str) -> str:
    """Return a message's last question with its mark, or its first sentence if it has none; "" if that's long."""
    asked = _ASKED.findall(said[:MAX_READ])
    quote = capital(asked[-1].lstrip(",:;- ")) if asked else f"{first_sentence(said.lstrip(',:;- '))}."
    return quote if len(quote) <= MAX_QUOTE else ""


def _calculate(left: str, sign: str, right: str) -> str:
    a, b = int(left), int(right)
    if sign in ("+", "plus"):
        return f"{a + b:,}"
    if sign in ("-", "minus"):
        return f"{a - b:,}"
    if sign == "/":
        return f"{a / b:,g}" if b else "infinity, give or take"
    return f"{a * b:,}"


class Answers:
    """An agent's answers. `remedy`: how to get a real model's, or "". `answered`: their number by who asked."""

    def __init__(self, agent: str, rng: random.Random, heard: Heard, remedy: str, answered: Counter[str]) -> None:
        self._lines, self._rng, self._heard = answers_of(agent), rng, heard
        self._note = f"\n-# {NOTE}; {remedy}" if remedy else f"\n-# {NOTE}"
        self._answered = answered

    def to_person(self, turn: Turn, name: str, text: str, *, files: bool = False) -> tuple[str, str | None]:
        """Answer a person; return the text, and a description of the picture that they want."""
        names = (turn.me, *turn.others, "bots")
        read = understand(text, names, files=files)
        kind, x = read.kind, read.x
        if kind == "statement" and turn.theme in GENTLE_THEMES:
            kind = "gentle"
        elif turn.in_thread and kind in TAKEN_UP:
            kind = "asked to moderate" if turn.sides.get(turn.me) == "moderator" else "asked"
            x = question_in(plain(text, names))
        pick = self._rng.choice(read.options) if read.options else ""
        line = capital(self._pick(kind, x).format_map({"asker": name, "x": x, "pick": pick, "me": turn.me}))
        has_note = not turn.nameless and not turn.in_thread
        return self._with_note(line, name) if has_note else line, read.x if kind == "draw" else None

    def joining(self, turn: Turn) -> str | None:
        """Return what the voice adds to another bot's answer: its own choice between the options, or None."""
        read = understand(turn.asked, (turn.me, *turn.others, "bots"))
        if read.kind != "choice":
            return None
        fields = {"asker": turn.asker, "pick": self._rng.choice(read.options), "me": turn.me}
        return capital(self._pick("choice").format_map(fields))

    def to_task(self, turn: Turn) -> str | None:
        """Read out an instruction of automation; return None if nobody would read it."""
        if turn.unheard:
            return None
        subject = phrase(first_sentence(plain(turn.task)), MAX_QUOTE)
        line = self._pick("news" if turn.from_outside else "task", subject)
        return self._with_note(capital(line.format_map({"x": subject, "me": turn.me})), "")

    def _pick(self, section: str, x: str = "") -> str:
        """Choose a line of the section, one that quotes `x` if there is an `x`."""
        lines = self._lines[section]
        return self._heard.pick(self._rng, [line for line in lines if ("{x}" in line) == bool(x)] or lines)

    def _with_note(self, text: str, name: str) -> str:
        due = self._answered[name] % NOTE_EVERY == 0
        self._answered[name] += 1
        return text + self._note if due else text
