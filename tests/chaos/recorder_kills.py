"""kill -9 of the recorder while thousands of entries come: each turn is in the record once, and its words.

The recorder runs in a process of its own, over a real Redis; another takes over each time. It is killed once the file
has a chosen number of turns more, which is somewhere between the reading, the commit and the acknowledgement.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import traceback
from pathlib import Path

from tests.chaos.tally import Tally
from tests.support.recording import AT, Scene, quotes, recording, turn, words
from tests.support.redis_server import RedisServer, until


class RecorderProcess:
    """`with RecorderProcess(url, path):` records until it is killed, at the end of the block."""

    def __init__(self, url: str, path: Path) -> None:
        self._url, self._path = url, path
        self._pid = 0

    def __enter__(self) -> RecorderProcess:
        self._pid = os.fork()
        if not self._pid:
            try:
                asyncio.run(self._record())
            except BaseException:
                traceback.print_exc()
            os._exit(1)
        return self

    def __exit__(self, *_: object) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)

    async def _record(self) -> None:
        async with recording(self._url, self._path) as scene:
            await scene.recorder(holder=str(os.getpid()), ttl=0.3).run()


async def run_trial(folder: Path, seed: int, *, kills: int, turns: int, words_each: int = 8) -> Tally:
    """Kill it so many times; before each kill so many turns are added, with the words of some. The words that wait stay
    below their stream's bound (1,000): what a bound drops is lost by intention."""
    rng, path = random.Random(seed), folder / "record.db"
    with RedisServer() as server:
        async with recording(server.url, path) as scene:
            await scene.record()  # creates the file
            for run in range(kills):
                before = _count(scene, "turns")
                names = [f"t{run}-{number}" for number in range(turns)]
                with RecorderProcess(server.url, path):
                    adding = asyncio.create_task(_add(scene, names, words_each))
                    enough = before + rng.randrange(1, turns)
                    await until(lambda enough=enough: _count(scene, "turns") >= enough, within=30)  # type: ignore[misc]
                await adding
            await scene.record()
            return _tally(scene, kills * turns, kills * len(range(0, turns, words_each)))


async def _add(scene: Scene, names: list[str], words_each: int) -> None:
    for start in range(0, len(names), 20):
        await scene.put_turns([turn(name, posted=(hash(name) >> 8,)) for name in names[start : start + 20]])
        spoken = [name for number, name in enumerate(names) if start <= number < start + 20 and not number % words_each]
        await scene.put(*(words(name, text=name * 50, quoted=quotes((int(AT), 1))) for name in spoken))


def _count(scene: Scene, table: str) -> int:
    [(count,)] = scene.rows(f"SELECT count(*) FROM {table}")  # noqa: S608
    return int(count)


def _tally(scene: Scene, turns: int, spoken: int) -> Tally:
    distinct = len({name for (name,) in scene.rows("SELECT id FROM turns")})
    counts = {table: _count(scene, table) for table in ("turns", "calls", "tool_calls", "posts", "words", "quotes")}
    wanted = {**dict.fromkeys(("turns", "calls", "tool_calls", "posts"), turns), "words": spoken, "quotes": spoken}
    wrong = [f"{table}: {counts[table]} rows for {wanted[table]}" for table in wanted if counts[table] != wanted[table]]
    [(dropped,)] = scene.rows("SELECT sum(dropped) FROM positions")
    if dropped:
        wrong.append(f"{dropped} entries were counted as lost")
    doubled = counts["turns"] - distinct
    return Tally(posts=distinct, double_posts=doubled, lost=turns - distinct, wrong=tuple(wrong))
