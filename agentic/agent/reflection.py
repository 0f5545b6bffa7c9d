"""The idle tasks that the coordinator gives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from agentic.agent.automation import AutomationEvent
from agentic.agent.event import deadline_of
from agentic.context.automation_task import AutomationTask
from agentic.context.unasked_task import unasked_task
from agentic.state.idle import UNASKED, WRITTEN
from agentic.wire.messages import Instruction, Reflection


@dataclass(frozen=True, slots=True, kw_only=True)
class ReflectionEvent(AutomationEvent):
    """The coordinator gives a task for while nobody writes. Either it writes a text for the coordinator (WRITTEN) by
    one call of a model, or it may post what nobody asked for (UNASKED).

    A post is on the account of the person that it is for, but no turn for people: these do not wait for it. What is
    written is on nobody's account.
    """

    kind: ClassVar[str] = "reflection"

    reflection: Reflection

    @property
    def writes(self) -> bool:
        """Whether it writes a text for the coordinator, and posts nothing."""
        return self.reflection.task in WRITTEN

    @property
    def lane(self) -> int | str:
        """A lane of its own for what is written: it waits for no turn in its channel, and none waits for it."""
        return self.id if self.writes else self.channel_id

    @property
    def source(self) -> str:
        return f"coordinator: {self.reflection.task}"

    @property
    def person_id(self) -> int | None:
        return None if self.writes else self.reflection.person_id

    @property
    def for_people(self) -> bool:
        return False

    @property
    def reports(self) -> bool:
        return True

    @property
    def about(self) -> frozenset[int]:
        """The people whose words or topics are in its prompt."""
        person = self.reflection.person_id
        return frozenset(self.reflection.people) | (frozenset() if person is None else {person})

    @property
    def reply_to(self) -> int | None:
        return self.reflection.message_id if self.reflection.task == "follow_up" else None

    @property
    def task(self) -> AutomationTask:
        given = self.reflection
        return unasked_task(
            given.task, given.person_name, material=given.material, topics=given.topics, avoid=given.avoid
        )

    @classmethod
    def of(cls, instruction: Instruction, now: float) -> ReflectionEvent | None:
        """None for a task that is not known, and for a post that would be for nobody."""
        given = instruction.reflection
        if given is None or given.task not in WRITTEN | UNASKED:
            return None
        if given.task in UNASKED and given.person_id is None:
            return None
        return cls(
            id=instruction.instruction_id,
            channel_id=instruction.channel_id,
            theme=instruction.channel_theme,
            deadline=deadline_of(instruction, now),
            reflection=given,
        )
