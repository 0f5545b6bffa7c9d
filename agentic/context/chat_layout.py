"""Chat mode (stage 9): the window as messages to the model, and the task at the end of the prompt."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from agentic.context.blocks import Block, quoted_in
from agentic.context.entries import Entry, one_line, words
from agentic.context.prompt import (
    MAY_SEARCH,
    PromptContext,
    Trigger,
    automation_task,
    naming_line,
    perspective_line,
    phase_part,
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
MAX_TOPIC = 200  # characters; another model wrote it
MAX_UNSEEN = 4  # names of files that can't be shown
BEGINNING = 24  # characters of a message that is quoted in full above
MUST_SPEAK = "You have to say something this turn."
NO_ANSWERS = "The audience's latest remarks need no answer. Answer the members."
SEARCH_FIRST = (
    "First search the web, once, with one query that covers your whole answer. Keep private details out of it. Then"
    " answer with what you found, and give the address of the best page."
)


def build_history(
    context: PromptContext,
    pictures: Mapping[int, tuple[Picture, ...]] = NO_PICTURES,
    files: Mapping[int, str] = NO_FILES,
) -> list[Message]:
    """Return the window as messages to the model, one per block. `pictures` maps message ids to pictures, `files` maps
    attachment ids to texts."""
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
    """Return the pictures of the block's messages. A message with a known picture ends its block, but a file may turn
    out to be a picture anywhere in it."""
    if not pictures:
        return ()
    units = (unit for line in block.lines if isinstance(line, Entry) for unit in line.units)
    return tuple(picture for unit in units for picture in pictures.get(unit.id, ()))


def cached_blocks(blocks: Sequence[Block], marker: int | None) -> set[int]:
    """Return the indices of the blocks after which a provider's cache may end: the block with the window's marker,
    which is fixed from cut to cut, and the last full block, so that messages since the cut are cached too."""
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
    """Return the end of the prompt: the reply chain, the time, and the task.

    It changes from turn to turn and is billed in full, so it only names the task. The system part says how to do it.
    """
    me, task, abilities, theme = context.me, context.task, context.abilities, context.place.theme
    since = context.now - context.window.cut_at
    distance = "" if since < NOW_SECONDS or not context.window.entries else f" ({after(since)})"
    now = f"It is {datetime.fromtimestamp(context.now, context.timezone):%A, %Y-%m-%d %H:%M}{distance}."
    parts = [now, _TASKS[task.trigger](context)]
    if chain := chain_part(task.chain, me.key, me.agents):
        parts.insert(0, chain)
    room = context.talk.room
    parts += (phase_part(room), perspective_line(task.perspective), naming_line(room, me.display_name))
    if task.closing:
        picture = ", without a picture" if theme.always_draw and abilities.can_draw else ""
        parts.append(f"This is the conversation's last message. Wrap it up{picture}.")
    if abilities.search_first:
        parts.append(SEARCH_FIRST)
    elif abilities.searches and not theme.search:
        parts.append(MAY_SEARCH)
    return "\n".join(filter(None, parts))


def _start(context: PromptContext) -> str:
    topic, room, ideas = context.talk.topic, context.talk.room, context.task.topic_ideas
    if room is not None:
        if room.format is not None:
            greeting = "You open it, without greeting everyone or announcing that a conversation begins."
            return f"{turn_of(room)} in this room. {greeting}{_must_answer(context)}"
        return (
            f"{turn_of(room)} in this room. You open it: say where you stand on the topic, so that the others want to"
            f" answer. Don't greet everyone or announce that a conversation begins.{_must_answer(context)}"
        )
    if topic:
        subject = f"The topic is {_topic(topic)}. Open with something"
    else:
        subject = (
            "Pick one concrete topic that fits the channel and didn't come up above. Name it in `topic`. Open with"
            " something"
        )
    otherwise = f" If you have no better idea: {'; or '.join(ideas)}." if ideas else ""
    return (
        f"Start a new conversation among the AIs. {subject} the others will want to answer. Don't greet everyone or"
        f" announce that a conversation begins.{otherwise}"
    )


def _topic(topic: str) -> str:
    return f"“{one_line(topic, MAX_TOPIC).replace('”', '’')}”"


def _take_turn(context: PromptContext) -> str:
    me, talk = context.me, context.talk
    if talk.room is not None:
        place = f"{turn_of(talk.room)} in this room."
    else:
        about = f" about {_topic(talk.topic)}" if talk.topic else ""
        place = f"Round {talk.round_number}{about}."
    if context.task.must_answer:
        return f"{place}{_must_answer(context)}"
    if waiting := context.unanswered:
        quotes = (_quote(entry, context) for entry in waiting[-3:])
        return "\n".join((place, "A person has joined in. Answer this first, by name:", *quotes))
    if talk.answered is not None and (said := context.just_answered) is not None:
        who = speaker_label(said.speaker, me.key, me.agents)
        return (
            f"{place}\n{talk.answered.by} has answered what {who} said in [msg:{said.id}]. Don't answer it again."
            " Continue the conversation."
        )
    newest, window = context.task.target, context.window.entries
    if newest is not None and not (window and window[-1].id == newest.id):  # else it is right above, with its author
        text = " ".join(words(text_with_marks(newest)).split())
        text = text if len(text) <= BEGINNING else f"{text[:BEGINNING].rstrip()}…"
        who = speaker_label(newest.speaker, me.key, me.agents)
        what = "The last member's message" if context.has_remarks else "Newest"
        place += f" {what}: [msg:{newest.id}] {who}: {text or '(no text)'}"
    return f"{place} {NO_ANSWERS}" if context.has_remarks else place


def _must_answer(context: PromptContext) -> str:
    """Quote the people's messages that the turn must answer, on lines of their own; "" for none."""
    target, questions = context.task.target, context.task.questions
    if not context.task.must_answer:
        return ""
    if questions:
        quotes = "\n".join(_quote(entry, context) for entry in questions)
        return f"\nPeople wait for answers to {len(questions)} messages. Answer each, by name:\n{quotes}\n{MUST_SPEAK}"
    quote = f":\n{_quote(target, context)}\n" if target is not None else ". "
    return f"\nA person has spoken. Answer what they said first, by name{quote}{MUST_SPEAK}"


def _join_in(context: PromptContext) -> str:
    target = context.task.target
    quote = f":\n{_quote(target, context)}\n" if target is not None else ". "
    return (
        f"Another AI has answered this message from a person{quote}"
        "You may join in once. If you have nothing new to add, skip."
    )


def _answer(context: PromptContext) -> str:
    task = (
        f"A person is waiting for your answer to this message:\n{_quote(context.task.target, context)}\nAnswer it now."
    )
    names = context.task.unseen
    if not names:
        return task
    # files that the agent knows by name alone, so that it does not guess what they say
    shown = [f"“{one_line(name, MAX_FILENAME).replace('”', '’')}”" for name in names[:MAX_UNSEEN]]
    more = f" and {len(names) - MAX_UNSEEN} more" if len(names) > MAX_UNSEEN else ""
    return (
        f"{task}\nYou only see the names of these attached files: {', '.join(shown)}{more}. If the answer depends on"
        " one, say that you can't open it, and that pictures and text files work."
    )


def _called(context: PromptContext) -> str:
    return (
        f"Another AI is talking to you:\n{_quote(context.task.target, context)}\n"
        "Answer it, or skip if there's nothing left to say. Mention another AI only if you want it"
        " to answer."
    )


def _continue(context: PromptContext) -> str:
    if context.talk.room is not None:  # a person named this member as the next
        return f"{_take_turn(context)}{'' if context.task.must_answer else f' {MUST_SPEAK}'}"
    return (
        "A person wants you to continue. Say what you would say next in this channel if it were your turn. Don't"
        " mention that you were asked."
    )


_TASKS: Mapping[Trigger, Callable[[PromptContext], str]] = {
    "starter": _start,
    "round": _take_turn,
    "reactive": _join_in,
    "mention": _answer,
    "call": _called,
    "continue": _continue,
    "errand": lambda context: automation_task(context.task.errand),
}


def _quote(entry: Entry | None, context: PromptContext) -> str:
    if entry is None:
        return "(the message is gone)"
    text = entry_body(entry).replace("\n", f"\n{INDENT}")
    return f"{INDENT}[msg:{entry.id}] {speaker_label(entry.speaker, context.me.key, context.me.agents)}: {text}"
