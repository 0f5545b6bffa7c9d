"""Chat mode (stage 9): the window as messages to the model, and the end of the prompt, which names the task."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from agentic.context.blocks import Block, quoted_in
from agentic.context.entries import Entry, one_line, words
from agentic.context.prompt import (
    PromptContext,
    Trigger,
    automation_task,
    naming_line,
    perspective_line,
    summary_text,
    turn_of,
)
from agentic.context.render import (
    INDENT,
    MAX_FILENAME,
    NO_FILES,
    after,
    chain_part,
    entry_body,
    render_lines,
    speaker_label,
    text_with_marks,
)
from agentic.llm.types import Message, Picture

NO_PICTURES: Mapping[int, tuple[Picture, ...]] = {}
NOW_SECONDS = 60.0
MAX_TOPIC = 200  # characters; it is what another model said
MAX_UNSEEN = 4  # names of files that cannot be shown
BEGINNING = 24  # characters of a message that stands in full above
SEARCH_FIRST = (
    "First search the web, once, with one comprehensive query for all that your answer needs: there is no second"
    " search. The query holds no private details of anybody. Answer with what you find, and name the address of the"
    " most relevant page."
)


def build_history(
    context: PromptContext,
    pictures: Mapping[int, tuple[Picture, ...]] = NO_PICTURES,
    files: Mapping[int, str] = NO_FILES,
) -> list[Message]:
    """Return the window as messages to the model, one a block. `pictures` maps a message's id to its pictures, `files`
    an attachment's id to its text."""
    window, me = context.window, context.me
    cached = cached_blocks(window.laid, window.marker)
    history = [Message("user", summary_text(context.kept.summary))] if context.kept.summary else []
    for index, block in enumerate(window.laid):
        key = ("chat", quoted_in(block, files))
        text = block.texts.get(key)
        if text is None:
            text = block.texts[key] = render_lines(block.lines, window.cut_at, me.key, me.agents, files)
        history.append(Message("user", text, pictures_of(block, pictures), cache=index in cached))
    return history


def pictures_of(block: Block, pictures: Mapping[int, tuple[Picture, ...]]) -> tuple[Picture, ...]:
    """Return the pictures of the block's messages. A message with a known picture ends its block; one whose file turned
    out to be a picture may stand anywhere."""
    if not pictures:
        return ()
    units = (unit for line in block.lines if isinstance(line, Entry) for unit in line.units)
    return tuple(picture for unit in units for picture in pictures.get(unit.id, ()))


def cached_blocks(blocks: Sequence[Block], marker: int | None) -> set[int]:
    """Return the indices of the blocks after which a provider's cache may end: the one with the window's marker, which
    is fixed from cut to cut, and the last full one, so that messages since the cut are cached as well."""
    closed = [index for index, block in enumerate(blocks) if block.closed]
    if not closed:
        return {len(blocks) - 1} if blocks else set()
    if marker is None:
        return {closed[-1]}
    firsts = {n: next((line.id for line in blocks[n].lines if isinstance(line, Entry)), None) for n in closed}
    # the last that begins no later than the marker, whose own message may be gone
    before = [index for index, first in firsts.items() if first is not None and first <= marker]
    return {closed[-1], before[-1] if before else closed[-1]}


def build_tail(context: PromptContext) -> str:
    """Return the end of the prompt: the reply chain, the present time, and the task.

    It changes from turn to turn and is billed in full, so it only names the task; the system part says how to do it.
    """
    me, task, abilities, theme = context.me, context.task, context.abilities, context.place.theme
    since = context.now - context.window.cut_at
    distance = "" if since < NOW_SECONDS or not context.window.entries else f" ({after(since)})"
    now = f"It is {datetime.fromtimestamp(context.now, context.timezone):%A, %Y-%m-%d %H:%M}{distance}"
    parts = [f"{now}{_TASKS[task.trigger](context)}"]
    if chain := chain_part(task.chain, me.key, me.agents):
        parts.insert(0, chain)
    parts += filter(None, (perspective_line(task.perspective), naming_line(context.talk.room, me.display_name)))
    if task.closing:
        picture = ", without a picture" if theme.always_draw and abilities.can_draw else ""
        parts.append(
            "This is the last message of this conversation: bring it to a close in one or two short sentences"
            f"{picture}."
        )
    if abilities.search_first:
        parts.append(SEARCH_FIRST)
    elif abilities.searches and not theme.search:
        parts.append("You may search the web; no query holds private details.")
    return "\n".join(parts)


def _start(context: PromptContext) -> str:
    topic, room, ideas = context.talk.topic, context.talk.room, context.task.topic_ideas
    if room is not None:
        return (
            f", {turn_of(room)} in this room.\nYou open it: say where you stand on its topic, so that the other"
            " members want to answer. Do not greet everybody and do not announce that a conversation begins."
            f"{_must_answer(context)}"
        )
    if topic:
        subject = f"Its topic is {_topic(topic)}: open with something about it"
    else:
        subject = (
            "Choose one concrete topic that fits the channel and was not talked about in the messages above, name it in"
            " `topic` in at most eight words, and open with something"
        )
    otherwise = f" If nothing better comes to mind: {'; or '.join(ideas)}." if ideas else ""
    return (
        f".\nYou open a new conversation among the AI members. {subject} that the others will want to answer. Do not"
        f" greet everybody and do not announce that a conversation begins.{otherwise}"
    )


def _topic(topic: str) -> str:
    return f"“{one_line(topic, MAX_TOPIC).replace('”', '’')}”"


def _go_on(context: PromptContext) -> str:
    me, talk = context.me, context.talk
    if talk.room is not None:
        lines = [f", {turn_of(talk.room)} in this room."]
    else:
        about = f"about {_topic(talk.topic)}" if talk.topic else "of the conversation"
        lines = [f", round {talk.round_number} {about}."]
    if context.task.must_answer:
        return f"{lines[0]}{_must_answer(context)}"
    waiting = context.unanswered
    if waiting:
        lines.append("A person has joined in. Turn to what they say, by name:")
        lines.extend(_quote(entry, context) for entry in waiting[-3:])
        return "\n".join(lines)
    if talk.answered is not None and (said := context.just_answered) is not None:
        lines.append(
            f"{talk.answered.by} has answered what {speaker_label(said.speaker, me.key, me.agents)}"
            f" said in [msg:{said.id}]: do not answer it again, go on with the conversation."
        )
    elif (newest := context.task.target) is not None:
        window = context.window.entries  # whose last message is right above the tail, with id and author
        if not window or window[-1].id != newest.id:
            text = " ".join(words(text_with_marks(newest)).split())
            text = text if len(text) <= BEGINNING else f"{text[:BEGINNING].rstrip()}…"
            who = speaker_label(newest.speaker, me.key, me.agents)
            lines[0] += f" Newest: [msg:{newest.id}] {who}: {text or '(no text)'}"
    return "\n".join(lines)


def _must_answer(context: PromptContext) -> str:
    """Quote the person's message that the turn must answer, on lines of its own; "" for none."""
    target = context.task.target
    if not context.task.must_answer:
        return ""
    quoted = f":\n{_quote(target, context)}\n" if target is not None else ". "
    return f"\nA person has spoken. Take up what they say, by name, before anything else{quoted}You may not skip."


def _join_in(context: PromptContext) -> str:
    target = context.task.target
    quoted = f"\n{_quote(target, context)}\n" if target is not None else " "
    return (
        f".\nA person said something that another AI member has answered; you may join in, once and briefly.{quoted}"
        "Skip unless you add something new."
    )


def _answer(context: PromptContext) -> str:
    task = (
        f".\nA person waits for your answer. The message to answer:\n{_quote(context.task.target, context)}\n"
        "Answer here and now, in a few sentences unless they ask for more. You may not skip."
    )
    names = context.task.unseen
    if not names:
        return task
    # files that the agent knows by name alone, so that it does not guess what they say
    shown = [f"“{one_line(name, MAX_FILENAME).replace('”', '’')}”" for name in names[:MAX_UNSEEN]]
    more = f" and {len(names) - MAX_UNSEEN} more" if len(names) > MAX_UNSEEN else ""
    return (
        f"{task}\nYou cannot open these attached files: {', '.join(shown)}{more}. You see their names only: if the"
        " answer depends on one, say that you cannot open it, and that pictures and text files work."
    )


def _called(context: PromptContext) -> str:
    return (
        f".\nAnother AI member speaks to you. Its message:\n{_quote(context.task.target, context)}\n"
        "Answer it here in a few sentences, or skip where nothing is left to say. Mention another AI member only if you"
        " want it to answer."
    )


def _continue(context: PromptContext) -> str:
    if context.talk.room is not None:  # a person named this member as the next
        return f"{_go_on(context)}{'' if context.task.must_answer else ' You may not skip.'}"
    return (
        ".\nA person wants you to go on: say what you would say next in this channel, as if it had been your turn. Do"
        " not mention that you were asked to. You may not skip."
    )


# Each goes on after the present, in the same sentence or in the next line.
_TASKS: Mapping[Trigger, Callable[[PromptContext], str]] = {
    "starter": _start,
    "round": _go_on,
    "reactive": _join_in,
    "mention": _answer,
    "call": _called,
    "continue": _continue,
    "errand": lambda context: f".\n{automation_task(context.task.errand)}",
}


def _quote(entry: Entry | None, context: PromptContext) -> str:
    if entry is None:
        return "(the message is gone)"
    text = entry_body(entry).replace("\n", f"\n{INDENT}")
    return f"{INDENT}[msg:{entry.id}] {speaker_label(entry.speaker, context.me.key, context.me.agents)}: {text}"
