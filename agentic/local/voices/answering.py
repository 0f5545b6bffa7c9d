"""Answers people from prepared lines, and says so.

A message is read first: its kind, and the words that an answer needs. A script can greet, joke, choose, draw and add
up. All else that is asked has the kind of what it cannot do, so that its answer says so. `understand` tries the most
specific forms first; patterns are searched in the text's own case.

A note under the first answer to a person, and under every sixth from then on, says that it is a prepared line. A
question that needs a model gets an answer that says that, in the persona's voice; a subject that the themes have lines
on gets one of them.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

from agentic.local.voices.scene import Scene, Topic, UsedLines, Words, persona, persona_key, theme_lines, topic_in
from agentic.local.voices.wording import NoResult, capital, first_sentence, phrase, plain, turned, words_of, worked_out

Kind = Literal[
    "empty", "unseen", "crisis", "sad", "language", "long", "greet", "how", "who", "help", "thanks", "bye", "joke",
    "draw", "sum", "math", "choice", "opinion", "about", "request", "self", "unknown", "reflect", "heard", "nod",
]  # fmt: skip
"""The kinds are sections of the persona files. "unseen" is a link or picture, "self" a question about the bot, "heard"
a statement that is not quoted back, "nod" a word like "ok"."""

NOTE = "prepared line"
NOTE_EVERY = 6  # answers to a person
MAX_TASK = 100  # characters of an instruction

_ON_A_SUBJECT: frozenset[Kind] = frozenset({"about", "opinion"})
_ON_A_TOPIC: frozenset[Kind] = _ON_A_SUBJECT | {"unknown", "reflect", "heard"}
_SET_PIECES: frozenset[Kind] = frozenset(
    {"crisis", "sad", "sum", "draw", "joke", "choice", "thanks", "bye", "language", "who", "help", "how", "greet"}
)
_LED: frozenset[Kind] = frozenset({"reflect", "heard"})  # the other kinds' lines turn to the person by themselves

LONG = 400  # characters
MAX_REFLECTED = 80
_GREETED_WORDS = 4
_NODDED_WORDS = 3
_CLOSED_WORDS = 6  # of a thank-you or a goodbye that is nothing else

_LINK = re.compile(r"https?://")
_WORD = re.compile(r"[^\W_]")
_CRISIS = re.compile(
    r"\b(?:kill(?:ing)? myself|suicid\w*|end (?:my|it) (?:life|all)|want to die|wanna die|hurt(?:ing)? myself"
    r"|harm(?:ing)? myself|self.harm|no reason to live)\b",
    re.I,
)
_SAD = re.compile(
    r"\b(?:i(?:'m|’m| am| feel)(?: \w+)? (?:sad|lonely|depressed|heartbroken|miserable|hopeless|grieving|scared|afraid"
    r"|exhausted|overwhelmed)|my\b.{0,40}\b(?:died|passed away|is dying)|broke up with me"
    r"|(?:nobody|no one)(?: ever| really)? (?:listens|likes|loves|cares|understands)|lost my (?:job|\w*mother|\w*father"
    r"|\w*mum|\w*mom|\w*dad|brother|sister|wife|husband|partner|friend|dog|cat|baby))\b",
    re.I,
)
_FOREIGN = words_of(
    "aber auch bist bitte danke das dein dem den der deutsch dich dir du ein eine einen er ich ihr ist kann kannst mein"
    " mir mit nicht oder sie sind und uns warum wer wie wir wo zu hallo guten tag morgen abend geht"
    " bonjour c'est comment est et je le les merci moi mon nous ou où pas pourquoi que quel quelle qui salut suis sur"
    " toi tu une va vas vous ça"
    " adiós buenas buenos bueno cómo como con dónde eres es está estás gracias hola la los mi muchas noches por porque"
    " puedes hablas español qué quién soy te tengo tienes una usted días"
    " buongiorno che chi ciao come cosa di grazie il io lo non per perché sei sono stai tutto"
    " boa bom dia obrigado obrigada olá onde quem são você"
    " cześć dzień dobry jak jest się dziękuję ik het een niet jij waar wat hoe hej jag och är inte tack"
)
_ENGLISH = words_of(
    "a about am an and any are at be but by can could did do does for from had has have he hello help her hi his how i"
    " if in is it me my no not of on one or please she should so thank thanks that the their them they think this to"
    " was we were what when where which who why will with would yes you your"
)
_MAYBE_ENGLISH = 3  # words that a text needs to count as a foreign one, unless the first one says it

_DRAW = re.compile(r"\b(?:draw|paint|sketch)(?: me| us)?\s+(?P<x>.+)|\b(?:picture|image|drawing) of\s+(?P<y>.+)", re.I)
_JOKE = re.compile(r"\b(?:tell|know|another|any|got|good|make)\b.*\bjokes?\b|^jokes?\b|\bmake (?:me|us) laugh\b", re.I)
_WHO = re.compile(
    r"\b(?:who|what) (?:exactly |really )?are you(?: exactly| really| then)?(?=$|[?!.,])|\byour name\b"
    r"|\bintroduce yourself\b|\bare (?:you|these|they) all (?:real|bots|human)\b"
    r"|\bis (?:any|every|some)(?:body|one)(?: here)? (?:real|human)\b"
    r"|\bare you (?:really )?(?:an? )?(?:real|human|ai|robot|bot|scripted|script|person|machine|llm|model"
    r"|language model)\b|^(?:are|is) (?:you|this)(?: really)? (?:claude|gpt\S*|chatgpt|gemini|grok)\b",
    re.I,
)
_HOW = re.compile(
    r"\bhow (?:are|r) (?:you|u)\b(?! (?:able|made|trained|built|different))|\bhow(?:'s|’s| is) (?:it going|life)\b"
    r"|\bwhat(?:'s|’s| is) (?:up|new)\b|\bhow do you (?:do|feel)\b",
    re.I,
)
_HELP = re.compile(
    r"^(?:please )?help(?: me)?[?!. ]*$|^(?:can|could) you help(?: me)?[?!. ]*$"
    r"|\bwhat (?:can|do) (?:you|i) do(?: here)?[?!. ]*$"
    r"|\bhow does (?:this|it) (?:all )?work\b|\bhow do i (?:use|start|stop|leave|quit)\b",
    re.I,
)
_THANKS = re.compile(r"\b(?:thanks|thank you|thx|cheers|ty)\b", re.I)
_BYE = re.compile(r"\b(?:bye|goodbye|good night|see you|see ya|cya|later)\b", re.I)
_HELLO = re.compile(
    r"^(?:hi|hello|hey|heya|hiya|yo|howdy|greetings|welcome|good (?:morning|evening|afternoon|day))\b", re.I
)

_OR = re.compile(
    r"^(?:.*(?:[,:]|\b(?:rather|prefer|better|pick|choose|do you want|would you take))\b)?[:,]?\s*(?P<a>[^,:?]+?),? or"
    r" (?P<b>[^,:?]+)(?P<mark>\??)$",
    re.I,
)
_CHOOSING = re.compile(r"\b(?:rather|prefer|pick|choose|better|nicer|do you want|would you take)\b", re.I)
_ASKS_A_FACT = re.compile(r"^(?:is|are|was|were|do|does|did|can|has|have|had|who|when|where|how|why)\b", re.I)
_OPINION = re.compile(
    r"\b(?:think|opinions?|take|views?|thoughts|feel)\s+(?P<p>about|of|on)\s+(?P<x>.+)"
    r"|\bdo you (?:like|love|hate|enjoy)\s+(?P<y>.+)",
    re.I,
)
_ABOUT = re.compile(
    r"^(?:(?:can|could|would|will) you |please |let's )*(?:talk about"
    r"|tell (?:me|us) (?:more |something |everything )?about"
    r"|explain(?: to me)?|define|describe|what do you know about|have you (?:ever )?heard of|who (?:is|was|were)|who's"
    r"|what(?:'s|’s| is| are| was| were)(?: meant by| the meaning of)?)\s+(?P<x>.+?)(?: to (?:me|us))?[?!. ]*$",
    re.I,
)
_OF_THE_MOMENT = re.compile(
    r"(?<![\w-])(?:time|date|day|today|tonight|tomorrow|yesterday|now|weather|temperature|news|score|price|year|my|your|we|you"
    r"|i|me|he|she|it|they|this|that|these|those|there|here|up|wrong|new|next|left|going|happening|doing|best|right|correct|winning)(?![\w-])",
    re.I,
)
_REQUEST = re.compile(
    r"^(?:hey |hi |ok |so )?(?:(?:can|could|would|will) you |please |kindly |let's )*"
    r"(?:write|translate|summari[sz]e|code|program|fix|debug|calculate|compute|solve|search|find|look|google|check|read"
    r"|open|play|sing|rhyme|list|give|make|create|build|compare|recommend|suggest|remind|book|send|help|teach|show|tell"
    r"|imagine|pretend|role.?play|act|continue|repeat|rewrite|improve|correct|convert|plan|answer|count|name|guess|say"
    r"|stop|ignore|forget|analy[sz]e|explain|define|describe|review|generate|remember|proofread|spell|draft|run|print)\b",
    re.I,
)
_ASKS_FOR_KNOWLEDGE = re.compile(r"\bdo you (?:know|remember|recall)\b|\b(?:can|could) you tell\b", re.I)
_TO_THE_BOT = re.compile(
    r"^(?:and |so |but )?(?:(?:what|why|how|when|where|who|which)\b.*?\b)?"
    r"(?:are|were|do|did|can|could|will|would|have|had|should|aren't|don't|can't|won't) you\b",
    re.I,
)
_NAMES_THE_BOT = re.compile(r"\b(?:you|your|yours|yourself)\b", re.I)
_QUESTION = re.compile(
    r"^(?:and |so |but |well )?(?:(?:what|why|how|when|where|who|whose|whom|which)\b|(?:is|are|was|were|am|do|does|did"
    r"|can|could|will|would|should|shall|has|have|had|may|might)(?:n't)?\s(?:i|you|he|she|it|we|they|the|a|an|my|your|this"
    r"|that|there|people|anyone|anybody|somebody|someone|everyone|all|\w+)\b)",
    re.I,
)
_OF_THE_LISTENER = re.compile(r"\b(?:I|I'm|I've|I'll|I'd|me|my|mine|myself)\b")
_EXCLAIMS = re.compile(
    r"(?:(?:ha)+|lol|lmao|wow|ok|okay|k|nice|great|good|cool|yes|yep|yeah|no|nope|sure|hm+|well|oh|ah|please|same|true"
    r"|right|fine|agreed|exactly|indeed|interesting)\b",
    re.I,
)
_NAMES_ONESELF = re.compile(r"(?:my name is|call me|i am called)\b", re.I)
_CODE = re.compile(r"[(){}\[\]=;<>/\\]")


class Answers:
    """The answers of an agent. `remedy` says what to do for a real model's answer, "" for nothing; `answered` counts
    the answers by the name of who asked."""

    def __init__(self, agent: str, rng: random.Random, said: UsedLines, remedy: str, answered: Counter[str]) -> None:
        self._key, self._persona = persona_key(agent), persona(agent)
        self._rng, self._said = rng, said
        self._note = f"\n-# {NOTE}; {remedy}" if remedy else f"\n-# {NOTE}"
        self._answered = answered

    def to_asker(self, scene: Scene) -> Words:
        """Answer the person that called."""
        words = self._reply(scene, self._understood(scene, scene.asked, scene.asked_files), scene.asker)
        return words if scene.nameless else self.noted(words, scene.asker)  # the note has its name

    def to_human(self, scene: Scene) -> Words:
        """Answer the person that wrote into the conversation."""
        human = scene.human or ""
        said = self._understood(scene, scene.human_said, scene.human_files)
        words = self._reply(scene, said, human)
        if said.kind in _LED and not theme_lines(scene.theme).own_tone:
            lead = self._said.pick(self._persona["human"]).format_map(scene.fields)
            words = Words(f"{lead} {words.text.replace(f', {human}', '', 1)}")  # the lead has named them
        return self.noted(words, human)

    def is_set_piece(self, text: str) -> bool:
        """Whether a message is one that a script answers best in its own way: a greeting, a sum, a person in need."""
        return understand(text).kind in _SET_PIECES

    def joining(self, scene: Scene) -> Words | None:
        """Add to another agent's answer where that is more than a second excuse."""
        asked = self._understood(scene, scene.asked, scene.asked_files)
        topic = self._topic(asked)
        if asked.kind != "choice" and topic is None:
            return None
        words = Words(self._on(topic)) if topic else self._reply(scene, asked, scene.asker)
        if scene.last in (None, scene.asker):
            return words
        lead = self._said.pick(self._persona["join"]).format_map(scene.fields)
        return Words(f"{lead} {words.text}")

    def to_task(self, scene: Scene) -> Words | None:
        """Take up an instruction of automation; None if nobody would read it."""
        if scene.unheard:
            return None
        subject = phrase(first_sentence(plain(scene.task)), MAX_TASK)
        line = self._pick("news" if scene.news else "task", subject)
        return self.noted(Words(capital(line.format_map(scene.fields | {"x": subject}))), "")

    def _understood(self, scene: Scene, text: str, files: bool) -> Utterance:
        said = understand(text, (scene.me, *scene.others, "bots"), files=files)
        quoted_in_tone = said.kind != "reflect" or not theme_lines(scene.theme).own_tone
        return said if quoted_in_tone else replace(said, kind="heard")

    def _reply(self, scene: Scene, asked: Utterance, asker: str) -> Words:
        fields = scene.fields | {
            "asker": asker,
            "x": asked.x,
            "pick": asked.result or (self._rng.choice(asked.options) if asked.options else ""),
        }
        if (topic := self._topic(asked)) is not None:
            lead = self._pick("know").format_map(fields | {"topic": topic.name})
            return Words(f"{capital(lead)} {self._on(topic)}")
        text = capital(self._pick(asked.kind, asked.x).format_map(fields))
        return Words(text, picture=asked.x if asked.kind == "draw" else None)

    def _topic(self, asked: Utterance) -> Topic | None:
        """The topic of a theme that the message is about."""
        if asked.kind not in _ON_A_TOPIC:
            return None
        return topic_in(asked.said, asked.x if asked.kind in _ON_A_SUBJECT else "")

    def _on(self, topic: Topic) -> str:
        return self._said.pick([line for line in topic.of(self._key) if "{" not in line])

    def _pick(self, section: str, x: str = "") -> str:
        """A line that names the subject, or one for no subject."""
        lines = self._persona[section]
        fitting = [line for line in lines if ("{x}" in line or "{pick}" in line) == bool(x)]
        return self._said.pick(fitting or lines)

    def noted(self, words: Words, asker: str) -> Words:
        """Words to a person, with the note where it is due."""
        due = self._answered[asker] % NOTE_EVERY == 0
        self._answered[asker] += 1
        return Words(words.text + self._note, words.topic, words.picture) if due else words


@dataclass(frozen=True, slots=True)
class Utterance:
    """A message that was understood. `x`: its subject in the listener's words, "" if they are not clear; `result`:
    of a sum; `said`: the text without markup."""

    kind: Kind
    x: str = ""
    options: tuple[str, ...] = ()
    result: str = ""
    said: str = ""


def understand(text: str, names: Iterable[str] = (), *, files: bool = False) -> Utterance:
    """Read a person's message; `names` are the mentions to leave out, `files` whether something is attached."""
    names = tuple(names)
    said = plain(text, names).lstrip(",:;- ")
    unseen = files or bool(_LINK.search(text))
    if not _WORD.search(said):
        return Utterance("unseen" if unseen else "empty")
    found = _sum(text, names) or _foreign(said)
    if _CRISIS.search(said) or _SAD.search(said):
        found = Utterance("crisis" if _CRISIS.search(said) else "sad")
    if found is None and len(said) > LONG:
        found = Utterance("long")
    found = found or _set_phrase(said)
    if found is None and unseen:
        return Utterance("unseen")
    found = found or _choice(said) or _subject(said) or _question(said) or _statement(said)
    return Utterance(found.kind, found.x, found.options, found.result, said)


def _sum(text: str, names: Iterable[str]) -> Utterance | None:
    unmarked = plain(text.replace("*", "×"), names).lstrip(",:; ")
    try:
        found = worked_out(unmarked)
    except NoResult:
        return Utterance("math")
    return Utterance("sum", found[0].replace("×", "*"), result=found[1]) if found else None


def _foreign(said: str) -> Utterance | None:
    letters = [char for char in said if char.isalpha()]
    if "¿" in said or "¡" in said or sum(char > "\u024f" for char in letters) * 2 > len(letters):  # not Latin
        return Utterance("language")
    words = re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)?", said.lower())
    foreign = sum(word in _FOREIGN for word in words)
    english = sum(word in _ENGLISH for word in words)
    few = len(words) < _MAYBE_ENGLISH
    if foreign > english and (foreign * 3 >= len(words) or (few and words[0] in _FOREIGN)):
        return Utterance("language")
    return None


def _set_phrase(said: str) -> Utterance | None:
    if match := _DRAW.search(said):
        wanted = re.sub(r",? please\b", "", match["x"] or match["y"], flags=re.I)
        return Utterance("draw", _turned_subject(wanted) or phrase(wanted))
    short = len(said.split()) <= _CLOSED_WORDS
    forms: tuple[tuple[Kind, bool], ...] = (
        ("joke", bool(_JOKE.search(said))),
        ("who", bool(_WHO.search(said))),
        ("how", bool(_HOW.search(said))),
        ("help", bool(_HELP.search(said))),
        ("thanks", bool(_THANKS.search(said)) and ("?" not in said)),
        ("bye", short and bool(_BYE.search(said)) and "?" not in said),
        ("greet", len(said.split()) <= _GREETED_WORDS and bool(_HELLO.match(said))),
    )
    return next((Utterance(kind) for kind, is_it in forms if is_it), None)


def _choice(said: str) -> Utterance | None:
    """A matter of taste with two options; "is it Monday or Tuesday" is a fact."""
    match = _OR.match(said)
    if match is None or not (match["mark"] or _CHOOSING.search(said)):
        return None
    if _ASKS_A_FACT.match(said) and not _CHOOSING.search(said):
        return None
    if re.match(r"(?:what|which)\b", said, re.I) and not _CHOOSING.search(said):
        return None
    options = tuple(turned(phrase(option)) or phrase(option) for option in (match["a"], match["b"]))
    return Utterance("choice", options=options)


def _subject(said: str) -> Utterance | None:
    if match := _OPINION.search(said):
        return Utterance("opinion", _turned_subject(match["x"] or match["y"], match["p"] or "like"))
    match = _ABOUT.match(said)
    if match and not _OF_THE_MOMENT.search(match["x"]):
        return Utterance("about", _turned_subject(match["x"], "about"))
    return None


def _question(said: str) -> Utterance | None:
    last = re.split(r"(?<=[.!?])\s+", said)[-1]
    for part in dict.fromkeys((said, last)):
        if _ASKS_FOR_KNOWLEDGE.search(part):
            return Utterance("unknown")
        if _REQUEST.match(part):
            return Utterance("request")
        if _TO_THE_BOT.match(part):
            return Utterance("self")
        if part.endswith("?") or _QUESTION.match(part):
            return Utterance("self" if _NAMES_THE_BOT.search(part) else "unknown")
    return Utterance("unknown") if "?" in said else None


def _statement(said: str) -> Utterance:
    """Quote it back only where it is about the person or the world, and short."""
    if _EXCLAIMS.match(said) and len(said.split()) <= _NODDED_WORDS:
        return Utterance("nod")
    sentence = phrase(first_sentence(said), len(said) + 1)
    back = turned(sentence) if len(sentence) <= MAX_REFLECTED and len(sentence.split()) > 2 else None
    if back is None or _OF_THE_LISTENER.search(back) or _CODE.search(sentence) or _NAMES_ONESELF.match(sentence):
        return Utterance("heard")
    return Utterance("reflect", back)


def _turned_subject(text: str, before: str = "") -> str:
    """The first sentence from the listener's side; "" if it is not safe or too long."""
    sentence = phrase(first_sentence(text), len(text) + 1)
    return (turned(sentence, before) or "") if len(sentence) <= MAX_REFLECTED else ""
