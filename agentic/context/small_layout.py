"""The prompt for small models (stage 9): few rules, the transcript as plain lines, and who speaks now about what.

    system      rules of the chat, its theme, who is there, the topic
                You are Claude, …
    user        ChatGPT: Tea is soup.
                Alice: No!

                Claude now says one new thing …

Small models copy what they read, so there are no ids, times, or marks. All bots of a channel have the same beginning,
up to the persona, which a model server reads once for all of them.
"""

from __future__ import annotations

from agentic.context.entries import Entry, Speaker, one_line
from agentic.context.prefill_layout import GAP, PrefillLayout, label, labels
from agentic.context.prompt import MAX_RULES, MAX_TOPIC, PromptContext, naming_line, perspective_line
from agentic.context.render import chain_sentence, text_with_marks
from agentic.llm.types import Message
from agentic.text import first_sentences, listed

MESSAGES = 6  # of the window right after a cut; it grows to twice as many
ANSWER_TOKENS = 160
MAX_MESSAGE = 500  # characters of each message
GUEST = "Guest"  # who asks the question of the example
MAX_THEME = 330  # about three sentences
LENGTH = "one or two short sentences"
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


def build_small(context: PromptContext) -> tuple[str, list[Message], str]:
    """Return the system part, the transcript, and the end of the prompt."""
    me, lines = context.me, _transcript(context)
    persona = context.kept.short or f"You are {me.display_name}. {first_sentences(me.personality.strip(), MAX_THEME)}"
    history = [Message("user", "\n".join(lines))] if lines else []
    return f"{_rules(context)}\n\n{persona}", history, _task(context)


def build_continuation(context: PromptContext, *, bare: bool = False, stop_names: int = 10) -> PrefillLayout:
    """Return a text for a base model to continue: an example of how the agent talks, two sentences about the
    discussion, and the transcript. `bare`: only the transcript. The answer ends at a blank line, or if another speaker
    begins."""
    me, task, talk = context.me, context.task, context.talk
    own = label(Speaker(0, me.display_name, "agent", me.key), me)
    said = _transcript(context)
    asked = task.target if task.must_answer or task.trigger in ("mention", "call", "reactive") else None
    if asked is not None and not (context.window.entries and context.window.entries[-1].id == asked.id):
        said.append(_line(asked, context))
    topic = talk.room.topic if talk.room is not None else talk.topic or next(iter(task.topic_ideas), "")
    names = sorted(talk.room.names if talk.room is not None else (me.display_name, *me.others))
    about = f" of “{one_line(topic, MAX_TOPIC)}”" if topic else ""
    frame = (
        f"The following is a thoughtful online discussion{about} between {listed(names)}. Every message gives a"
        " different argument in one or two full sentences."
    )
    question, answer = context.kept.example or ("", "")
    example = [f"{GUEST}: {question}", f"{own}: {answer}"] if question else []
    speakers = (*labels(context.window.entries, me), *(name for name in names if name != own), GUEST)
    others = tuple(dict.fromkeys(speakers))
    return PrefillLayout(
        system="" if bare else GAP.join((*example, frame)),
        history=(),
        prefill=GAP.join((*said, f"{own}:")),
        stops=(GAP, *(f"\n{name}:" for name in others[:stop_names])),
        own=own,
        others=others,
    )


def _transcript(context: PromptContext) -> list[str]:
    return [_line(entry, context) for entry in context.window.entries]


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
        about = [f"The topic is “{one_line(room.topic, MAX_TOPIC)}”.{rules}"]
    return "\n".join(
        (
            f"{context.place.heading} is a group chat. {listed(names)} are AIs in it. Everyone else is a person.",
            *about,
            f"A message has {LENGTH}, in plain words: no headings, no lists, no greeting, no thanks. Each of them"
            " says something that nobody has said yet.",
            'Answer with a JSON object that has the message, {"text": "…"}.',
        )
    )


def _task(context: PromptContext) -> str:
    me, task, talk = context.me, context.task, context.talk
    name, target = me.display_name, task.target
    said = f"{label(target.speaker, me)} said: “{one_line(text_with_marks(target), MAX_MESSAGE)}”" if target else ""
    waiting = context.unanswered
    parts = [chain_sentence(task.chain, me.key, me.agents)]
    if task.must_answer and target is not None:
        parts.append(f"{said} {name} answers that now.")
    elif waiting:
        quote = one_line(text_with_marks(waiting[-1]), MAX_MESSAGE)
        parts.append(f"{label(waiting[-1].speaker, me)} said: “{quote}” {name} answers that now.")
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
        return f"{name} opens the conversation and says in one or two sentences where they stand, and why."
    if context.talk.topic:
        return f"{name} opens the conversation with a clear opinion about it, and the reason."
    idea = f", such as “{ideas[0]}”" if ideas else ""
    return (
        f"{name} starts a conversation about one concrete thing that didn't come up above{idea}. The text is a clear"
        " opinion about it with a reason. Put the thing into `topic`, in a few words."
    )
