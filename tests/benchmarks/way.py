"""python -m tests.benchmarks.way [--package PREFIX]: the files that carry a mention and an instruction.

One mention is followed from the gateway to Discord's send, and one instruction from the bus to the step that settles
its result, in the scene of the cogs' tests: our own code, with doubles for Discord, Redis and the model.

The *way* is the part of all calls that carries the turn on: each coroutine that calls into another module of ours, and
each function that calls or schedules such a coroutine. Plain functions that decide, convert or count are leaves beside
the way. A task or callback counts as called by the function that scheduled it.

A *stay* is an unbroken sequence of functions on the way in one module, in the order in which they begin. Going back to
a caller is no stay; a further function that the caller then calls in its own module is one. A *return* is a stay in a
module that was left before, so there are as many stays as modules and returns. Returns are of two kinds: "called back",
when another module calls it, and "read on", when the module itself continues after a call to another one.

The *files* are those to read in order to understand the turn: each that hands it on. That is a function by which the
turn comes to its post or its result, or a coroutine that awaits one of another file. What a turn asks on its way is not
counted (ASKED): it answers, and hands nothing on.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextvars import Context
from dataclasses import dataclass, field
from inspect import CO_COROUTINE
from itertools import groupby
from types import FrameType
from typing import Any

from agentic.wire.messages import Instruction
from tests.support.agent_scene import LOUNGE, Scene
from tests.support.doubles import SceneTurns, TextChannel, settle

ASKED = tuple(
    f"agentic.{each}." for each in ("services", "state", "wire", "record", "llm", "tools", "net", "personas", "process")
)
"""The packages that speak to chat services, Redis, models, tools, the network, and the disk, or run a task."""

Turn = Callable[[Scene], Awaitable[None]]
INSTRUCTION = Instruction(instruction_id="i1", channel_id=LOUNGE, channel_theme="casual")


@dataclass(eq=False, slots=True)
class Call:
    """A function of ours that began, and what it called or scheduled, in this order."""

    module: str
    function: str
    is_coroutine: bool
    caller: Call | None
    calls: list[Call] = field(default_factory=list)

    def subtree(self) -> Iterator[Call]:
        yield self
        for call in self.calls:
            yield from call.subtree()

    def is_on_way(self, package: str) -> bool:
        steps = (call for call in self.subtree() if call.is_coroutine and call.module.startswith(package))
        return any(below.module != step.module for step in steps for below in step.subtree())


class Recorder:
    """Records the calls of our functions until `end` begins, in `begun` in this order, and in `posting` those that
    post or end the turn."""

    def __init__(self, end: object) -> None:
        self._end = end
        self.begun: dict[FrameType, Call] = {}
        self.posting: list[Call] = []
        self.scheduler: Call | None = None  # of the callback that the loop runs

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """A function for sys.setprofile, which reports each resumption of a coroutine as another call."""
        if event != "call" or frame in self.begun:
            return
        if frame.f_code in (self._end, TextChannel.send.__code__) and (by := self.innermost(frame.f_back)) is not None:
            self.posting.append(by)
        if frame.f_code is self._end:
            sys.setprofile(None)
        if not (module := str(frame.f_globals.get("__name__", ""))).startswith("agent"):
            return
        caller = self.innermost(frame.f_back)
        is_coroutine = bool(frame.f_code.co_flags & CO_COROUTINE)
        call = self.begun[frame] = Call(module, frame.f_code.co_name, is_coroutine, caller)
        if caller is not None:
            caller.calls.append(call)

    def innermost(self, frame: FrameType | None) -> Call | None:
        """The innermost recorded call in which a frame runs, else the one that scheduled it."""
        while frame and frame not in self.begun:
            frame = frame.f_back
        return self.begun[frame] if frame else self.scheduler


class Loop(asyncio.SelectorEventLoop):
    """Record which call scheduled each callback and each step of a task."""

    recorder: Recorder

    def call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]
        scheduler = self.recorder.innermost(sys._getframe(1))

        def run() -> None:
            self.recorder.scheduler = scheduler
            callback(*args)

        return super().call_soon(run, context=context)


async def mention(scene: Scene) -> None:
    await scene.ask("is tea soup?")


async def instruction(scene: Scene) -> None:
    (channel,) = (each for each in scene.bus.handlers if each.endswith(":instructions"))
    await scene.bus.handlers[channel](INSTRUCTION.to_wire())
    await settle()


async def recorded(turn: Turn, recorder: Recorder) -> None:
    scene = await Scene().start()
    await settle()
    sys.setprofile(recorder.profile)
    await turn(scene)
    assert sys.getprofile() is None, "the turn did not come to its end"
    await scene.aclose()


def record_turn(turn: Turn, end: Any) -> Recorder:
    """Follow a turn to its `end`."""
    Loop.recorder = recorder = Recorder(end.__code__)
    with asyncio.Runner(loop_factory=Loop) as runner:
        runner.run(recorded(turn, recorder))
    return recorder


def way(recorder: Recorder, package: str) -> list[Call]:
    """The functions of the package on the way of a turn."""
    return [call for call in recorder.begun.values() if call.module.startswith(package) and call.is_on_way(package)]


def files(recorder: Recorder) -> list[str]:
    """The modules that hand the turn on, in the order in which it comes to them."""
    handing = set[int]()
    for call in recorder.posting:
        by: Call | None = call
        while by is not None:
            handing.add(id(by))
            by = by.caller
    found = dict[str, None]()
    for call in recorder.begun.values():
        others = (each for each in call.calls if each.is_coroutine and each.module != call.module)
        awaits = call.is_coroutine and any(not each.module.startswith(ASKED) for each in others)
        if (awaits or id(call) in handing) and not call.module.startswith(ASKED):
            found[call.module] = None
    return list(found)


def stays(calls: list[Call]) -> Iterator[str]:
    """A line for each stay, and their number."""
    kinds, visited = list[str](), set[str]()
    for module, stay in groupby(calls, key=lambda call: call.module):
        begin, *more = stay
        inside = begin.caller and begin.caller.module == module
        kinds.append("" if module not in visited else "read on" if inside else "called back")
        visited.add(module)
        yield f"{len(kinds):4} {kinds[-1]:12} {module:34} {' → '.join(call.function for call in (begin, *more))}"
    back, on = kinds.count("called back"), kinds.count("read on")
    yield f"{len(kinds)} stays in {len(visited)} modules, {back + on} returns: {back} called back, {on} read on\n"


TURNS = (
    ("A mention to its post", mention, TextChannel.send),
    ("An instruction to its result", instruction, SceneTurns.settle),
)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks.way", description="List the modules of two turns."
    )
    parser.add_argument("--package", default="agent", help="only modules with this prefix")
    package = parser.parse_args().package
    for title, turn, end in TURNS:
        recorder = record_turn(turn, end)
        print(title, *stays(way(recorder, package)), sep="\n")
        print(f"{len(files(recorder))} files: {' → '.join(files(recorder))}\n")


if __name__ == "__main__":
    main()
