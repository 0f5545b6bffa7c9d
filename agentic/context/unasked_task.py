"""The tasks in which an agent may write although nobody asked: a follow-up and a discovery.

People mind such a message unless it brings something new, so each task says when to stay silent. What people said, the
subjects of a person's profile and what was sent before are data.
"""

from __future__ import annotations

from collections.abc import Sequence

from agentic.context.automation_task import AutomationTask
from agentic.context.untrusted import one_line

MAX_NAME = 40  # characters
MAX_SUBJECT = 80  # of each
MOST_SUBJECTS = 20
MAX_QUERY = 300
MAX_SENT = 200  # of each message that was sent before
MOST_SENT = 10
MAX_MATERIAL = 6_000  # of the newest lines

_FOLLOW_UP = (
    "The talk below ended with a message that nobody took up. Look up whether there is something really new about it:"
    " what has happened since, or what {name} did not know when it was written. Only if there is, answer that message"
    " in a few sentences: say what is new. Do not ask how things are going, do not say that you are checking in, and"
    " repeat nothing that was said. Nothing new: skip."
)
_DISCOVER = (
    "{name} likes to talk about the subjects below. Choose one, and look up whether there is something really new about"
    " it that {name} would be glad to hear of. Only if there is, write {name} a message of a few sentences, by name:"
    " say what is new, and why it may be of interest. Do not say how you know what {name} likes, do not list the"
    " subjects, and do not say that you are checking in. Nothing new: skip."
)


def unasked_task(
    task: str, person: str, *, material: str = "", topics: Sequence[str] = (), avoid: Sequence[str] = ()
) -> AutomationTask:
    """The task `follow_up` or `discover`. `material`: what was said, a line each; `topics`: the subjects of the
    person's profile; `avoid`: what was sent unasked before."""
    name = one_line(person, MAX_NAME) or "the person"
    text = (_FOLLOW_UP if task == "follow_up" else _DISCOVER).format(name=name)
    subjects = [f"- {one_line(topic, MAX_SUBJECT)}" for topic in topics[:MOST_SUBJECTS]]
    sent = [f"- {one_line(each, MAX_SENT)}" for each in avoid[-MOST_SENT:]]
    parts = [
        _newest(material),
        "\n".join((f"Subjects that {name} talks about:", *subjects)) if subjects else "",
        "\n".join(("Sent before, so it is not new any more:", *sent)) if sent else "",
    ]
    material, query = "\n".join(part for part in parts if part), _query(task, material, topics)
    occasion = "a follow-up while nobody writes" if task == "follow_up" else "something new for a person"
    return AutomationTask(occasion=occasion, text=text, material=material, query=query, unasked=True)


def _query(task: str, material: str, topics: Sequence[str]) -> str:
    """The words of the last message, without its author; or the first of the subjects."""
    if task != "follow_up":
        return f"{one_line(topics[0], MAX_SUBJECT)} news" if topics else ""
    last = material.rstrip().rpartition("\n")[2]
    return one_line(last.partition(": ")[2] or last, MAX_QUERY)


def _newest(material: str) -> str:
    """The last lines, whole ones, that have no more than MAX_MATERIAL characters together."""
    if len(material) <= MAX_MATERIAL:
        return material
    cut = material[-MAX_MATERIAL:]
    return cut.partition("\n")[2] or cut
