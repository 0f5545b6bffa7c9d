"""The prompt for small models (stage 9): a text that the model continues as the agent.

    system      Below, ChatGPT, Claude, … discuss two topics. …
                (a short discussion, which shows how to talk)
    user        Topic: Is tea soup?
                ChatGPT: Tea is soup.
                Alice: No!
                You are Claude, …
    assistant   Claude: But

Small models copy what they read, and talk as the text before talks: an example is worth more than rules. There are no
ids, times, or marks. A model server reads what all bots of a channel have in common only once, so the agent's persona
comes last. Base models get the same as one plain text.

In a room with a format, the format has the first words for each phase and side. They quote somebody's claim, or name
who asked. In a debate, the sides take turns in the example. They have no task: a small model drops its side for it.
Panels and interviews have no example, and who the agent is and what it does come after the messages.

A model that can't continue an answer, or that has tools, gets the messages and a task in chat mode (build_small).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, cycle, takewhile

from agentic.context.entries import Entry, Speaker, one_line
from agentic.context.prefill_layout import GAP, PrefillLayout, label, labels
from agentic.context.prompt import (
    MAX_NAME,
    MAX_RULES,
    MAX_TOPIC,
    FormatTurn,
    PromptContext,
    naming_line,
    perspective_line,
)
from agentic.context.render import chain_sentence, text_with_marks
from agentic.formats import FORMATS, Phase
from agentic.language import language_of
from agentic.llm.types import Message
from agentic.subject import COMMON, content_words
from agentic.text import first_sentences, listed, sentences, tokens, without_quotations

MESSAGES = 6  # of the window right after a cut; it grows to twice as many
AGAIN = 2  # messages after which the topic is repeated before the last one
ANSWER_TOKENS = 160
FORMAT_TOKENS = 100  # of an answer in a room with a format
MAX_MESSAGE = 500  # characters of each message
MAX_THEME = 330  # about three sentences
LENGTH = "one or two short sentences"
SIDES = {
    "for": "argues for it",
    "against": "argues against it",
    "undecided": "is undecided",
    "guest": "is the guest and answers",
    "moderator": "asks and has no opinion",
}
OWN_SIDE = {
    "for": "You're for it. Asked “{topic}”, you say yes.",
    "against": "You're against it. Asked “{topic}”, you say no.",
    "undecided": "You're undecided.",
    "guest": "You're the guest, and you answer.",
    "moderator": "You ask, and have no opinion.",
}
ONE_NEW_THING = (
    "{name} now says one new thing against or beyond the last message, without repeating any of it: {name} {angle}. The"
    " text begins with the point itself, not with a name."
)
# Without one of these, a small model agrees with the last message in its own words.
ANGLES = (
    "gives an example from everyday life that speaks against it",
    "names a cost or a person that it forgot",
    "asks one concrete question that it can't answer",
    "names a case in which it's wrong",
    "says what would have to change first",
    "compares it with something quite different",
    "takes the other side, with one reason",
    "says what happens ten years later",
)


FRAME = "Below, {names} discuss two topics. Every message is one or two short sentences with a new point."
FORMAT_FRAME = "Below, {names} hold a formal {format}. Every message is one or two short sentences with a new point."
# Small models talk as the text before talks: each message has a point of its own, and names what it's about.
EXAMPLE_TOPIC = "Should our town keep its old lighthouse?"
EXAMPLE = (
    "I'd keep the lighthouse. Ships have satellites now, but on a foggy night the fishermen still look for that light"
    " before they trust a screen.",
    "The lamp costs forty thousand a year, and the fishermen are twelve people. That money is a bus for each village"
    " on the coast.",
    "A lighthouse could pay for itself. A couple in Norway rents out the keeper's room, and it's booked until spring.",
    "The neighbors won't like guests. It means cars on a cliff road where two of them can't pass each other.",
    "We could close the road. Visitors walk the last mile, and the walk is what they tell their friends about.",
    "The cliff won't wait for them. The sea takes a meter each winter, so who pays to move the lighthouse?",
)
EXAMPLE_WORDS = frozenset({"lighthouse", "keeper", "fishermen", "cliff", "foggy"})
"""A message with one of them is about the example."""
OPENERS = (
    "But",
    "What if",
    "For example,",
    "The trouble with",
    "Ten years from now,",
    "I'd rather",
    "Nobody has asked",
    "Then why",
    "Think of",
    "The price of",
)
RECENT = len(OPENERS) - 1  # messages whose first words aren't used again, and whose language is that of the next
# The first words of an answer to a person or to another member, in a room with a format. The formats have the others.
ASKED: Mapping[str, Sequence[str]] = {
    "for": (
        "{asker}, that can be solved:",
        "{asker}, I'm still for it, because",
        "{asker}, I still say yes, because",
    ),
    "against": (
        "{asker}, there's a better way:",
        "{asker}, I'm still against it, because",
        "{asker}, I still say no, because",
    ),
    "guest": ("{asker}, my answer is", "{asker}, I'd say", "{asker}, the short answer is"),
}
ABOUT_PEOPLE = "people who"  # in a question; then an answer is about them
THEY: Mapping[str, Sequence[str]] = {
    "for": ("{asker}, they're better off with it, because", *ASKED["for"]),
    "against": ("{asker}, they're better off without it, because", *ASKED["against"]),
}
OTHER_ANSWERS = ("{asker}, my answer is", "{asker}, I'd say that", "{asker}, that depends on")
PASSED_ON = ("{guest}, {asker} asks: “{question}” What", "{guest}, a question from {asker}: “{question}” How")
_ENGLISH = "are better could does from how need our should than the what which who why worth would"
ENGLISH = frozenset(_ENGLISH.split())  # a topic too short to tell its language has one of these words
MAX_QUESTION = 200
MAX_CLAIM = 16  # words
MIN_CLAIM = 4
_NO_CLAIM = """
    additionally also although and as because but by even example finally first for furthermore he how however i i'd
    i'm if in maybe moreover my no plus second she so take that that's then therefore these think third this those
    though when while with without yes you"""
NO_CLAIM = frozenset(_NO_CLAIM.split())
"""Words that begin a part of a sentence, or a sentence that needs the one before it."""

_PLACE = re.compile(r"\{(\w+)\}")
_ADDS = re.compile(
    r"(?:moreover|additionally|furthermore|also|plus|finally|in addition|overall|therefore),? ", re.IGNORECASE
)
_QUOTES = re.compile('[“”"]')
_OTHER_SIDE = re.compile(
    r"\bI agree\b|\byou(?:['’]re| are) right\b|\b(?:good|great) point\b|\bon the other hand\b", re.IGNORECASE
)


def build_small(context: PromptContext) -> tuple[str, list[Message], str]:
    """Return the system part, the transcript, and the end of the prompt."""
    me, lines = context.me, [_line(entry, context) for entry in context.window.entries]
    persona = context.kept.short or f"You are {me.display_name}. {first_sentences(me.personality.strip(), MAX_THEME)}"
    history = [Message("user", "\n".join(lines))] if lines else []
    return f"{_rules(context)}\n\n{persona}", history, _task(context)


def build_continuation(
    context: PromptContext, *, bare: bool = False, stop_names: int = 10, attempt: int = 0
) -> PrefillLayout:
    """Return a text for the model to continue: a short discussion that shows how to talk, then the topic, the
    transcript, and its name with the first words of its message. The beginning is the same for all bots of a channel.
    Panels and interviews have no example, and who the agent is comes last. `bare`: only the transcript. Each `attempt`
    has other first words. The answer ends at a blank line, in a conversation at the end of its line, or if another
    speaker or topic begins."""
    me, talk = context.me, context.talk
    own = label(Speaker(0, me.display_name, "agent", me.key), me)
    names = sorted(talk.room.names if talk.room is not None else (me.display_name, *me.others))
    others = tuple(dict.fromkeys((*labels(context.window.entries, me), *(name for name in names if name != own))))
    opener, shown, given = _opener(context, attempt), _shown(context), format_of(context)
    sides = " ".join(_sides(given))
    if given is None or given.with_side("for", "against"):
        frame = f"{FRAME.format(names=listed(names))} {sides}".rstrip()
        system = GAP.join((frame, *_example(names, given), about_turn(context)))
    else:  # without the example, which argues; who the agent is comes last
        system = f"{FORMAT_FRAME.format(names=listed(names), format=given.name)} {sides}"
        shown += [] if bare else [about_turn(context)]
    end = "\n" if given is not None or not asked_by(context) else GAP
    return PrefillLayout(
        system="" if bare else system,
        history=(Message("user", GAP.join(shown)),),
        prefill=f"{own}: {opener}".rstrip(),
        stops=(end, "\nTopic:", *(f"\n{name}:" for name in others[:stop_names])),
        own=own,
        others=others,
        opener=opener,
    )


def _example(names: Sequence[str], given: FormatTurn | None) -> list[str]:
    """Return a short discussion that shows how to talk. In a debate, the sides take turns in it."""
    pro, con = ([] if given is None else given.with_side(side) for side in ("for", "against"))
    speakers = chain.from_iterable(zip(cycle(pro), cycle(con), strict=False)) if pro and con else cycle(names)
    return [f"Topic: {EXAMPLE_TOPIC}", *(f"{name}: {text}" for name, text in zip(speakers, EXAMPLE, strict=False))]


def topic_of(context: PromptContext) -> str:
    """Return the topic, for a starter without one the first idea, or "" if there is none."""
    room, talk = context.talk.room, context.talk
    return room.topic if room is not None else talk.topic or next(iter(context.task.topic_ideas), "")


def is_about_example(text: str, context: PromptContext) -> bool:
    """Return whether a small model's message is about the example instead of the topic."""
    there = " ".join((topic_of(context), *(entry.text for entry in context.window.entries)))
    return not EXAMPLE_WORDS.intersection(tokens(text)) <= set(tokens(there))


def format_of(context: PromptContext) -> FormatTurn | None:
    return context.talk.room.format if context.talk.room is not None else None


def is_last_phase(context: PromptContext) -> bool:
    """Return whether the room has a format, and this is the phase in which members end their case."""
    given = format_of(context)
    return given is not None and [each.name for each in _phases(given)][-1:] == [given.phase]


def _is_opening(context: PromptContext) -> bool:
    """Return whether this is a debater's first statement. It doesn't see the others', since it would copy them."""
    given = format_of(context)
    return given is not None and given.argues and [each.name for each in _phases(given)][:1] == [given.phase]


def leaves_side(text: str, context: PromptContext) -> bool:
    """Return whether a debater's message agrees with its opponent, or argues for both sides."""
    given = format_of(context)
    return given is not None and given.argues and _OTHER_SIDE.search(without_quotations(text)) is not None


def without_own_name(text: str, context: PromptContext) -> str:
    """Return the text without the sentences in which the agent speaks about itself by name."""
    name = context.me.display_name
    own = re.compile(rf"(?<![\w@])(?<!I am )(?<!I['’]m ){re.escape(name)}(?!\w)")
    if own.search(topic_of(context)):
        return text
    return " ".join(each for each in sentences(text) if not own.search(without_quotations(each)))


def shortened(text: str, opener: str) -> str:
    """Return a message in a room with a format up to its first question, which others answer, or its second sentence
    after the opener's whole sentences, without a "Moreover" and what follows it."""
    if adds := _ADDS.match(text):
        text = f"{text[adds.end() :][:1].upper()}{text[adds.end() + 1 :]}"
    kept = sentences(text)[: len(sentences(opener)) + 1]
    kept = [*kept[:1], *takewhile(lambda each: not _ADDS.match(each), kept[1:])]
    asks = next((at for at, sentence in enumerate(kept, 1) if sentence.endswith("?")), len(kept))
    return " ".join(kept[:asks])


def _shown(context: PromptContext) -> list[str]:
    """Return the topic, and the messages as lines; the message to answer comes last."""
    task, room, topic = context.task, context.talk.room, topic_of(context)
    entries, asked = [*task.chain.entries, *context.window.entries], asked_by(context)
    if asked is None and _is_opening(context):
        entries = []
    elif asked is not None and not (entries and entries[-1].id == asked.id):
        last = task.questions or (asked,)
        entries = [*(entry for entry in entries if entry.id not in {each.id for each in last}), *last]
    said = [_line(entry, context) for entry in entries]
    shown = [f"Topic: {one_line(topic, MAX_TOPIC)}"] if topic else []
    if room is not None:
        shown += [f"Rules: {one_line(room.rules, MAX_RULES)}"] if room.rules.strip() else []
    if topic and len(said) > AGAIN:  # a small model forgets it after a few messages
        said.insert(-1, f"Topic: {one_line(topic, MAX_TOPIC)}")
    return shown + said or [f"Topic: {context.place.theme.summary}"]


def asked_by(context: PromptContext) -> Entry | None:
    """Return the message that the turn answers, if it answers one."""
    task = context.task
    if task.must_answer or task.trigger in ("mention", "call", "reactive"):
        return task.target
    return context.unanswered[-1] if context.unanswered else None


def _member_asking(context: PromptContext) -> Entry | None:
    """Return another member's last post if it asks the agent something by name."""
    others = (each for each in reversed(context.window.entries) if each.speaker.agent not in (None, context.me.key))
    last = next(others, None)
    return last if last is not None and "?" in last.text and context.me.display_name in last.text else None


def about_turn(context: PromptContext) -> str:
    """Return who the agent is, and what only its next message is about."""
    me, closing, given = context.me, context.task.closing, format_of(context)
    persona = context.kept.short or f"You are {me.display_name}. {first_sentences(me.personality.strip(), MAX_THEME)}"
    last = "This is the conversation's last message." if closing else ""
    does, asked = "", asked_by(context) or _member_asking(context)
    if given is None:
        pass
    elif given.argues and _is_english(context):  # the first words say what to do, and a task leads it off its side
        does = _role(context, given)
    elif asked is None:
        does = f"{given.task} {_role(context, given)}"
    else:
        question = f"{one_line(asked.speaker.name, MAX_NAME)} asks: “{one_line(asked.text, MAX_MESSAGE)}”"
        does = f"{question} {_role(context, given)}"
    return "\n".join(filter(None, (persona, does, perspective_line(context.task.perspective), last)))


def _opener(context: PromptContext, attempt: int) -> str:
    """Return the first words of a turn in a conversation, which lead the model to something new. A room's format has
    its own for each phase and side, also for answers to people. Without a format, return "" for an answer to a person
    and for a conversation's first turn. A conversation that isn't certainly in English has at most a name."""
    entries, given = context.window.entries, format_of(context)
    recent, found = [entry.text for entry in entries[-RECENT:]], list[str]()
    if given is not None:
        found = _format_openers(context, given)
    elif context.task.trigger in ("round", "continue") and recent and not asked_by(context) and _is_english(context):
        found = [*OPENERS]
    if not found:
        return ""
    unused = [each for each in found if not _is_used(each, recent, by_end=given is not None)] or found
    at = entries[-1].id if entries else 0
    at += int(context.now) if given is not None else 0  # a member that failed tries others
    at %= len(unused)
    in_turn = dict.fromkeys((*unused[at:], *unused[:at], *found))
    return [*in_turn][attempt % len(in_turn)]


def _is_used(opener: str, recent: Iterable[str], *, by_end: bool) -> bool:
    """Return whether a message begins so. `by_end`: or has the last two words, such as "people who"."""
    end = " ".join(opener.split()[-2:])
    return any(text.startswith(opener) or (by_end and end in text) for text in recent)


def _is_english(context: PromptContext) -> bool:
    """Return whether the conversation is certainly in English. In a room with a format, a short topic may decide."""
    recent = (entry.text for entry in context.window.entries[-RECENT:])
    language = language_of(" ".join((topic_of(context), *recent)))
    is_short = language is None and format_of(context) is not None
    return language == "en" or (is_short and not ENGLISH.isdisjoint(tokens(topic_of(context))))


def _phases(given: FormatTurn) -> Sequence[Phase]:
    """Return the format's phases; none for a format of a later version."""
    return next((each.phases for name, each in FORMATS.items() if name == given.name), ())


def _format_openers(context: PromptContext, given: FormatTurn) -> list[str]:
    """Return first words for the agent's side in this phase, with names and a claim to answer."""
    openers = next((each.openers for each in _phases(given) if each.name == given.phase), {})
    heard = [each for each in reversed(context.window.entries) if each.speaker.agent not in (None, context.me.key)]
    asked, me = asked_by(context), context.me.display_name
    own = openers.get(given.side) or openers.get("member", ())
    if asked is not None:
        passes_on = not given.side and given.with_side("guest") and me not in asked.text
        own = PASSED_ON if passes_on else ASKED.get(given.side, ("{asker},",))
    elif (asked := _member_asking(context)) is not None and given.side != "guest":
        own = ASKED.get(given.side, OTHER_ANSWERS)
    if asked is not None and ABOUT_PEOPLE in asked.text:
        own = THEY.get(given.side, own)
    if not _is_english(context):
        own = ("{guest},",) if asked is None else ("{asker},",)
    by, claim = _claim(context, given, heard)
    values = {
        "guest": next((name for name in given.with_side("guest") if name != me), ""),
        "asker": one_line(asked.speaker.name, MAX_NAME) if asked is not None else "",
        "question": one_line(asked.text, MAX_QUESTION) if asked is not None else "",
        "by": by,
        "claim": claim,
    }
    return [each.format_map(values) for each in own if all(values[name] for name in _PLACE.findall(each))]


def _claim(context: PromptContext, given: FormatTurn, heard: Sequence[Entry]) -> tuple[str, str]:
    """Return the name of the member to answer and the claim in its post that adds most to the topic, without claims
    that somebody has quoted. Either is "" if there is none."""
    others = {
        "for": given.with_side("against", "undecided"),
        "against": given.with_side("for", "undecided"),
        "": given.with_side("guest"),
    }.get(given.side) or [name for name, side in given.sides.items() if side != "moderator"]
    said = [each for each in heard if one_line(each.speaker.name, MAX_NAME) in others]
    texts, known = [each.text for each in context.window.entries], content_words(topic_of(context)) | COMMON
    names = {*given.sides, *(each.speaker.name for each in context.window.entries)}
    for entry in reversed(said) if given.argues else said:  # an opening statement never leaves its side
        claims = [claim for each in sentences(entry.text) if (claim := _short_claim(each, names))]
        new = [each for each in claims if content_words(each) - known and sum(each in text for text in texts) < 2]
        if new:
            best = max(new, key=lambda claim: len(content_words(claim) - known))
            return one_line(entry.speaker.name, MAX_NAME), best
    return (one_line(said[0].speaker.name, MAX_NAME) if said else ""), ""


def _short_claim(sentence: str, names: Iterable[str]) -> str:
    """Return a sentence's claim in a few words, without its end; "" if it makes none, or names or quotes somebody."""
    if sentence.endswith(("?", ":")) or _QUOTES.search(sentence) or any(name in sentence for name in names):
        return ""
    words = (sentence.partition(" because ")[2] or sentence).rstrip(".!").split()
    if len(words) > MAX_CLAIM:
        words = " ".join(words).partition(", ")[0].split()
    if "also" in words or (words and words[0].rstrip(",").lower() in NO_CLAIM):
        return ""
    return " ".join(words) if MIN_CLAIM <= len(words) <= MAX_CLAIM else ""


def _line(entry: Entry, context: PromptContext) -> str:
    return f"{label(entry.speaker, context.me)}: {one_line(text_with_marks(entry), MAX_MESSAGE) or '(no text)'}"


def _rules(context: PromptContext) -> str:
    """Return the text that is the same for all bots here."""
    theme, room, me = context.place.theme, context.talk.room, context.me
    names = room.names if room is not None else sorted((me.display_name, *me.others))
    about = [first_sentences(" ".join(theme.rules.split()), MAX_THEME)]
    if context.talk.topic and room is None:
        about.append(f"The topic is “{one_line(context.talk.topic, MAX_TOPIC)}”.")
    if room is not None:
        rules = f" Its rules: {one_line(room.rules, MAX_RULES)}" if room.rules.strip() else ""
        about = [f"The topic is “{one_line(room.topic, MAX_TOPIC)}”.{rules}", *_sides(room.format)]
    return "\n".join(
        (
            f"{context.place.heading} is a group chat. {listed(names)} are AIs in it. Everyone else is a person.",
            *about,
            f"A message has {LENGTH}, in plain words: no headings, no lists, no greeting, no thanks. Each of them"
            " says something that nobody has said yet.",
            'Answer with a JSON object that has the message, {"text": "…"}.',
        )
    )


def _sides(given: FormatTurn | None) -> list[str]:
    """Say in a sentence who has which side in a room with a format."""
    if given is None:
        return []
    said = [f"{one_line(name, MAX_NAME)} {SIDES[side]}" for name, side in given.sides.items() if side in SIDES]
    return [f"This is a formal {given.name}. {listed(said)}." if said else f"This is a {given.name}."]


def _role(context: PromptContext, given: FormatTurn) -> str:
    """Say what the agent is in a room with a format."""
    guests = given.with_side("guest")
    if given.side in OWN_SIDE:
        return OWN_SIDE[given.side].format(topic=one_line(topic_of(context), MAX_TOPIC))
    return f"You ask {guests[0]}, who is the guest." if guests else "You speak now."


def _task(context: PromptContext) -> str:
    me, task, talk = context.me, context.task, context.talk
    name, target = me.display_name, task.target
    said = f"{label(target.speaker, me)} said: “{one_line(text_with_marks(target), MAX_MESSAGE)}”" if target else ""
    waiting = context.unanswered
    parts = [chain_sentence(task.chain, me.key, me.agents)]
    if task.must_answer and task.questions:
        all_said = (
            f"{label(each.speaker, me)} said: “{one_line(text_with_marks(each), MAX_MESSAGE)}”"
            for each in task.questions
        )
        parts.append("\n".join((*all_said, f"{name} answers each of them now, by name.")))
    elif task.must_answer and target is not None:
        parts.append(f"{said} {name} answers that now.")
    elif waiting:
        quote = one_line(text_with_marks(waiting[-1]), MAX_MESSAGE)
        parts.append(f"{label(waiting[-1].speaker, me)} said: “{quote}” {name} answers that now.")
    elif talk.room is not None and talk.room.format is not None:
        given = talk.room.format
        parts.append(f"{given.task} {_role(context, given)}")
    elif task.trigger == "starter":
        parts.append(_opening(context))
    elif task.trigger == "mention" or task.trigger == "call":
        parts.append(f"{said} {name} answers that now.")
    elif task.trigger == "reactive":
        parts.append(f"{said} {name} now adds one new thing to the answers, without repeating any of them.")
    else:
        newest = context.window.entries[-1].id if context.window.entries else 0
        parts.append(ONE_NEW_THING.format(name=name, angle=ANGLES[newest % len(ANGLES)]))
    parts += (perspective_line(task.perspective), naming_line(talk.room, name))
    if task.closing:
        parts.append(f"This is the conversation's last message, so {name} ends it.")
    return "\n".join(filter(None, parts))


def _opening(context: PromptContext) -> str:
    name, ideas = context.me.display_name, context.task.topic_ideas
    if context.talk.room is not None:
        return f"{name} opens the conversation and says in one or two sentences what they think, and why."
    if context.talk.topic:
        return f"{name} opens the conversation with a clear opinion about it, and the reason."
    idea = f", such as “{ideas[0]}”" if ideas else ""
    return (
        f"{name} starts a conversation about one concrete thing that didn't come up above{idea}. The text is a clear"
        " opinion about it with a reason. Put the thing into `topic`, in a few words."
    )
