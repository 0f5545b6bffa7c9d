"""Messages and tail in chat mode.

Stage 9 in chat mode: the window as messages to the model, one a block.

Two marks say where a provider's cache may end: the window's marker, which is fixed from cut to cut, and the end of the
last full block, so that messages since the cut are cached as well.

Stage 9 in chat mode: the end of the prompt, which changes from turn to turn.

It is billed in full at every turn, so it only names the task; the system part says how to do it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from agentic.context.blocks import Block, quoted_in
from agentic.context.entries import Entry, one_line, words
from agentic.context.prompt import (
    Identity,
    Trigger,
    TurnContext,
    angle_line,
    automation_task,
    naming_line,
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
from agentic.context.window import Window
from agentic.llm.types import Message, Picture

NO_PICTURES: Mapping[int, tuple[Picture, ...]] = {}


def build_history(
    context: TurnContext,
    pictures: Mapping[int, tuple[Picture, ...]] = NO_PICTURES,
    files: Mapping[int, str] = NO_FILES,
) -> list[Message]:
    """`pictures` maps a message's id to its pictures, `files` an attachment's id to its text."""
    blocks = context.window.laid
    history = [Message("user", _text(context.window, block, context.me, files)) for block in blocks]
    for index, block in enumerate(blocks):
        if found := pictures_of(block, pictures):
            history[index] = replace(history[index], pictures=found)
    for index in marked(blocks, context.window.marker):
        history[index] = replace(history[index], cache=True)
    return [Message("user", summary_text(context.summary)), *history] if context.summary else history


def pictures_of(block: Block, pictures: Mapping[int, tuple[Picture, ...]]) -> tuple[Picture, ...]:
    """Return the pictures of the block's messages. A message with a known picture ends its block; one whose file turned
    out to be a picture may stand anywhere."""
    if not pictures:
        return ()
    units = (unit for line in block.lines if isinstance(line, Entry) for unit in line.units)
    return tuple(picture for unit in units for picture in pictures.get(unit.id, ()))


def marked(blocks: Sequence[Block], marker: int | None) -> set[int]:
    """Return the indices of the blocks after which a cache may end."""
    closed = [index for index, block in enumerate(blocks) if block.closed]
    if not closed:
        return {len(blocks) - 1} if blocks else set()
    if marker is None:
        return {closed[-1]}
    return {closed[-1], max((index for index in closed if _begins_by(blocks[index], marker)), default=closed[-1])}


def _begins_by(block: Block, marker: int) -> bool:
    """Whether the block begins no later than the marker. If the marker's message is gone, the block before it is
    used."""
    first = next((line.id for line in block.lines if isinstance(line, Entry)), None)
    return first is not None and first <= marker


def _text(window: Window, block: Block, me: Identity, files: Mapping[int, str]) -> str:
    key = ("chat", quoted_in(block, files))
    known = block.texts.get(key)
    if known is None:
        known = block.texts[key] = render_lines(block.lines, window.cut_at, me.key, me.agents, files)
    return known


NOW_SECONDS = 60.0
MAX_TOPIC = 200  # characters; it is what another model said
SEARCH_FIRST = (
    "First search the web, once, with one comprehensive query for all that your answer needs: there is no second"
    " search. The query holds no private details of anybody. Answer with what you find, and name the address of the"
    " most relevant page."
)
MAX_UNSEEN = 4  # names of files that cannot be shown
BEGINNING = 24  # characters of a message that stands in full above


def build_tail(context: TurnContext) -> str:
    """The reply chain, the present time, and the task."""
    parts = [f"{_present(context)}{_TASKS[context.trigger](context)}"]
    if chain := chain_part(context.chain, context.me.key, context.me.agents):
        parts.insert(0, chain)
    parts += filter(None, (angle_line(context.angle), naming_line(context.room, context.me.display_name)))
    if context.closing:
        picture = ", without a picture" if context.theme.always_draw and context.can_draw else ""
        parts.append(
            "This is the last message of this conversation: bring it to a close in one or two short sentences"
            f"{picture}."
        )
    if context.search_first:
        parts.append(SEARCH_FIRST)
    elif context.searches and not context.theme.search:
        parts.append("You may search the web; no query holds private details.")
    return "\n".join(parts)


def _present(context: TurnContext) -> str:
    """The present time, also relative to the cut like the messages' times."""
    since = context.now - context.window.cut_at
    label = "" if since < NOW_SECONDS or not context.window.entries else f" ({after(since)})"
    return f"It is {datetime.fromtimestamp(context.now, context.timezone):%A, %Y-%m-%d %H:%M}{label}"


def _start(context: TurnContext) -> str:
    if context.room is not None:
        return (
            f", {turn_of(context.room)} in this room.\nYou open it: say where you stand on its topic, so that the other"
            " members want to answer. Do not greet everybody and do not announce that a conversation begins."
            f"{_taking_up(context)}"
        )
    if context.topic:
        subject = f"Its topic is {_topic(context.topic)}: open with something about it"
    else:
        subject = (
            "Choose one concrete topic that fits the channel and was not talked about in the messages above, name it in"
            " `topic` in at most eight words, and open with something"
        )
    hints = f" If nothing better comes to mind: {'; or '.join(context.hints)}." if context.hints else ""
    return (
        f".\nYou open a new conversation among the AI members. {subject} that the others will want to answer. Do not"
        f" greet everybody and do not announce that a conversation begins.{hints}"
    )


def _topic(topic: str) -> str:
    return f"“{one_line(topic, MAX_TOPIC).replace('”', '’')}”"


def _go_on(context: TurnContext) -> str:
    lines = [f", {_place(context)}."]
    if context.take_up:
        return f"{lines[0]}{_taking_up(context)}"
    waiting = context.unanswered
    if waiting:
        lines.append("A person has joined in. Turn to what they say, by name:")
        lines.extend(_quote(entry, context.me) for entry in waiting[-3:])
        return "\n".join(lines)
    if context.answered is not None and (said := context.just_answered) is not None:
        lines.append(
            f"{context.answered.by} has answered what {speaker_label(said.speaker, context.me.key, context.me.agents)}"
            f" said in [msg:{said.id}]: do not answer it again, go on with the conversation."
        )
    elif context.target is not None and not _stands_above(context.target, context):
        lines[0] += f" Newest: {_beginning(context.target, context.me)}"
    return "\n".join(lines)


def _place(context: TurnContext) -> str:
    """The turn's place in its conversation."""
    if context.room is not None:
        return f"{turn_of(context.room)} in this room"
    about = f" about {_topic(context.topic)}" if context.topic else ""
    return f"round {context.round_number}{about or ' of the conversation'}"


def _taking_up(context: TurnContext) -> str:
    """The person's message that the turn must take up, on lines of its own; "" for none."""
    if not context.take_up:
        return ""
    quoted = f":\n{_quote(context.target, context.me)}\n" if context.target is not None else ". "
    return f"\nA person has spoken. Take up what they say, by name, before anything else{quoted}You may not skip."


def _join_in(context: TurnContext) -> str:
    quoted = f"\n{_quote(context.target, context.me)}\n" if context.target is not None else " "
    return (
        f".\nA person said something that another AI member has answered; you may join in, once and briefly.{quoted}"
        "Skip unless you add something new."
    )


def _answer(context: TurnContext) -> str:
    quoted = _quote(context.target, context.me) if context.target is not None else "(the message is gone)"
    return (
        f".\nA person waits for your answer. The message to answer:\n{quoted}\n"
        f"Answer here and now, in a few sentences unless they ask for more. You may not skip.{_unseen(context.unseen)}"
    )


def _unseen(names: tuple[str, ...]) -> str:
    """Say which files the agent knows by name alone, so that it does not guess what they say; "" for none."""
    if not names:
        return ""
    shown = [f"“{one_line(name, MAX_FILENAME).replace('”', '’')}”" for name in names[:MAX_UNSEEN]]
    more = f" and {len(names) - MAX_UNSEEN} more" if len(names) > MAX_UNSEEN else ""
    return (
        f"\nYou cannot open these attached files: {', '.join(shown)}{more}. You see their names only: if the answer"
        " depends on one, say that you cannot open it, and that pictures and text files work."
    )


def _called(context: TurnContext) -> str:
    quoted = _quote(context.target, context.me) if context.target is not None else "(the message is gone)"
    return (
        f".\nAnother AI member speaks to you. Its message:\n{quoted}\n"
        "Answer it here in a few sentences, or skip where nothing is left to say. Mention another AI member only if you"
        " want it to answer."
    )


def _continue(context: TurnContext) -> str:
    if context.room is not None:  # a person named this member as the next
        return f"{_go_on(context)}{'' if context.take_up else ' You may not skip.'}"
    return (
        ".\nA person wants you to go on: say what you would say next in this channel, as if it had been your turn. Do"
        " not mention that you were asked to. You may not skip."
    )


# Each goes on after the present, in the same sentence or in the next line.
_TASKS: Mapping[Trigger, Callable[[TurnContext], str]] = {
    "starter": _start,
    "round": _go_on,
    "reactive": _join_in,
    "mention": _answer,
    "call": _called,
    "continue": _continue,
    "errand": lambda context: f".\n{automation_task(context.task)}",
}


def _quote(entry: Entry, me: Identity) -> str:
    text = entry_body(entry).replace("\n", f"\n{INDENT}")
    return f"{INDENT}[msg:{entry.id}] {speaker_label(entry.speaker, me.key, me.agents)}: {text}"


def _stands_above(entry: Entry, context: TurnContext) -> bool:
    """Whether it is the window's last message, which is right above the tail with id and author."""
    window = context.window.entries
    return bool(window) and window[-1].id == entry.id


def _beginning(entry: Entry, me: Identity) -> str:
    """Return enough of a message to find it above."""
    text = " ".join(words(text_with_marks(entry)).split())
    text = text if len(text) <= BEGINNING else f"{text[:BEGINNING].rstrip()}…"
    return f"[msg:{entry.id}] {speaker_label(entry.speaker, me.key, me.agents)}: {text or '(no text)'}"
