"""The prompt for small models (stage 9): few rules, the transcript as plain lines, and who speaks now about what.

    system      rules of the chat, its theme, who is there
    user        ChatGPT: Tea is soup.
                Alice: No!

                You are Claude, …
                Claude now says one new thing …

Small models copy what they read and lose what came long before their answer. So there are no ids, times, or marks, and
the persona and the task come last. All bots of a server have the same beginning, up to the persona: a model server
on the owner's machine reads it once for all of them.
"""

from __future__ import annotations

from agentic.context.entries import one_line
from agentic.context.prefill_layout import label
from agentic.context.prompt import MAX_RULES, MAX_TOPIC, PromptContext, naming_line, perspective_line
from agentic.context.render import chain_sentence, text_with_marks
from agentic.llm.types import Message
from agentic.text import first_sentences, listed

MESSAGES = 12  # of the window right after a cut; it grows to twice as many
ANSWER_TOKENS = 160
MAX_MESSAGE = 500  # characters of each message
MAX_THEME = 330  # about three sentences
ONE_NEW_THING = (
    "{name} now says one new thing against or beyond the last message, without repeating any of it. The text begins"
    " with the point itself, not with a name."
)


def build_small(context: PromptContext) -> tuple[str, list[Message], str]:
    """Return the system part, the transcript, and the end of the prompt."""
    lines = [
        f"{label(entry.speaker, context.me)}: {one_line(text_with_marks(entry), MAX_MESSAGE) or '(no text)'}"
        for entry in context.window.entries
    ]
    return _rules(context), [Message("user", "\n".join(lines))] if lines else [], _task(context)


def _rules(context: PromptContext) -> str:
    """Return what is the same for all bots here."""
    theme, room, me = context.place.theme, context.talk.room, context.me
    names = room.names if room is not None else sorted((me.display_name, *me.others))
    about = [first_sentences(" ".join(theme.rules.split()), MAX_THEME)]
    if room is not None:
        rules = f" Its rules: {one_line(room.rules, MAX_RULES)}" if room.rules.strip() else ""
        about = [f"The topic is “{one_line(room.topic, MAX_TOPIC)}”.{rules}"]
    return "\n".join(
        (
            f"{context.place.heading} is a group chat. {listed(names)} are AIs in it. Everyone else is a person.",
            *about,
            f"A message has {theme.length}, in plain words: no headings, no lists, no greeting, no thanks. Each of them"
            " says something that nobody has said yet.",
            'Answer with a JSON object that has the message, {"text": "…"}.',
        )
    )


def _task(context: PromptContext) -> str:
    me, task, talk = context.me, context.task, context.talk
    name, target = me.display_name, task.target
    said = f"{label(target.speaker, me)} said: “{one_line(text_with_marks(target), MAX_MESSAGE)}”" if target else ""
    waiting = context.unanswered
    parts = [context.kept.short or f"You are {name}. {first_sentences(me.personality.strip(), MAX_THEME)}"]
    parts.append(chain_sentence(task.chain, me.key, me.agents))
    if talk.topic and talk.room is None:
        parts.append(f"The topic is “{one_line(talk.topic, MAX_TOPIC)}”.")
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
        parts.append(ONE_NEW_THING.format(name=name))
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
