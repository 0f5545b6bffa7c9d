"""A server with a record for the coordinator's idle tasks, in memory: Ada writes, agents answer, notes take effect."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_coordinator.config import CoordinatorConfig, IdleAgent, IdleConfig
from agent_coordinator.idle.tasks import sent_of
from agentic.background_tasks import TASKS
from agentic.ids import id_at
from agentic.state.idle import Candidate, Sent
from agentic.wire.entries import Entry, ProfileNote, SummaryNote, UnaskedNote
from agentic.wire.messages import CancelNotice, Instruction, Result
from tests.support.coordinator_doubles import BERLIN, CHANNEL, NOON, MemoryBus, config

ADA, SERVER = 11, 70
HOUR = 3600.0
NEWS = "The tall ships race from Bergen again in August, which they have not done for nine years."


def idle_config(
    *tasks: str, agents: tuple[str, ...] = ("claude",), unprompted: str = "everyone", again_hours: float = 0.0
) -> CoordinatorConfig:
    """Round the clock, without conversations of the bots' own."""
    its = {agent: IdleAgent(tasks or TASKS, unprompted) for agent in agents}
    idle = IdleConfig(agents=its, again_hours=again_hours)
    return config(idle=idle, schedule_min=0, schedule_max=0, active_start=0, active_end=0, reactive_probability=0.0)


@dataclass
class Record:
    """What the record has: one talk of Ada's with each agent. It stands in for IdleMemory, and takes notes; `asked` is
    the number of its queries."""

    clock: Callable[[], float]
    talk_at: float = 0.0  # 0: nobody has ever written
    summarised: int = 0
    profile: ProfileNote | None = None
    unasked: list[UnaskedNote] = field(default_factory=list)
    agreed: dict[int, bool] = field(default_factory=dict)
    notes: list[tuple[str, Entry]] = field(default_factory=list)
    asked: int = 0
    channel: int = CHANNEL

    def ada_writes(self) -> None:
        self.talk_at = self.clock()

    # Notes

    def note(self, entry: Entry) -> None:
        raise AssertionError(f"no note of a conversation is expected: {entry}")

    def log(self, agent: str, entry: Entry) -> None:
        self.notes.append((agent, entry))
        match entry:
            case SummaryNote():
                self.summarised = entry.message_id
            case ProfileNote():
                self.profile = entry
            case UnaskedNote():
                self.unasked.append(entry)

    # IdleMemory

    async def newest(self, agent: str, task: str) -> int:
        self.asked += 1
        changed = id_at(self.profile.at) if self.profile and task == "discover" and self._talk else 0
        return max([self._talk, changed, *(note.message_id for note in self.unasked)])

    async def to_summarise(self, agent: str, before: float, skip: Collection[int] = ()) -> Candidate | None:
        self.asked += 1
        return None if self._talk <= self.summarised else self._candidate()

    async def to_profile(self, agent: str, skip: Collection[int] = ()) -> Candidate | None:
        self.asked += 1
        return None if self._talk <= (self.profile.upto if self.profile else 0) else self._candidate()

    async def hanging(self, agent: str, before: float, count: int) -> tuple[Candidate, ...]:
        self.asked += 1
        followed = any(note.task == "follow_up" and note.message_id > self._talk for note in self.unasked)
        return () if followed or not self._talk or self.talk_at > before else (self._candidate(),)

    async def people(self, agent: str, count: int) -> tuple[Candidate, ...]:
        self.asked += 1
        topics = self.profile.topics if self.profile else ()
        return (self._candidate().model_copy(update={"topics": topics, "material": ""}),) if topics else ()

    async def sent(self, since: float) -> tuple[Sent, ...]:
        self.asked += 1
        return tuple(replace(sent_of(note), answered=self.talk_at > note.at) for note in self.unasked)

    async def consents(self) -> Mapping[int, bool]:
        self.asked += 1
        return dict(self.agreed)

    @property
    def _talk(self) -> int:
        return id_at(self.talk_at) if self.talk_at else 0

    def _candidate(self) -> Candidate:
        return Candidate(
            channel_id=self.channel,
            guild_id=SERVER,
            message_id=self._talk,
            upto=self._talk,
            person_id=ADA,
            person_name="Ada",
            material="Claude: they race in summer.\nAda: where do the tall ships go this year?",
            at=self.talk_at,
        )


class Agents(MemoryBus):
    """Agents that do their idle tasks, each in `seconds`, unless they are cancelled. `refuses`: task → the reason for
    which it is not done; `hangs`: no result ever comes."""

    def __init__(self, clock: Callable[[], float], seconds: float = 0.0) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds
        self.refuses: dict[str, str] = {}
        self.hangs = False
        self.at: list[float] = []
        self.under_way = asyncio.Event()

    async def ask(self, agent: str, instruction: Instruction, *, absent_grace: float | None = None) -> Result:
        self.asked.append((agent, instruction))
        self.at.append(self._clock())
        self.under_way.set()
        await (asyncio.Event().wait() if self.hangs else asyncio.sleep(self._seconds))
        return self.result_of(agent, instruction)

    def result_of(self, agent: str, instruction: Instruction) -> Result:
        task = instruction.reflection.task if instruction.reflection else ""
        fields: dict[str, Any] = {"text": {"summarise": "They race.", "profile": "tall ships\nbread"}.get(task, NEWS)}
        if task in self.refuses:
            fields = {"skipped": True, "reason": self.refuses[task]}
        elif task in ("follow_up", "discover"):
            fields["message_id"] = id_at(self._clock())
        return Result(instruction_id=instruction.instruction_id, agent_name=agent, **fields)

    def tasks(self) -> list[str]:
        return [each.reflection.task for _, each in self.asked if each.reflection is not None]

    def cancelled(self) -> list[str]:
        return [each.instruction_id for _, each in self.published if isinstance(each, CancelNotice)]


__all__ = ["ADA", "BERLIN", "CHANNEL", "HOUR", "NEWS", "NOON", "Agents", "Record", "idle_config"]
