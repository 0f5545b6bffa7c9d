"""The bench over a server of models: the whole program holds the conversations that it measures."""

import json

from agent_config import load_settings
from agentic.agent.persona import read_fronts
from agentic.process.root import ROOT
from agentic.quality.__main__ import main, rows, written
from agentic.quality.turns import Side, answer_again, hold
from tests.support.models.chat_api import ChatAnswer, ChatServer

ANSWERS = (
    "A night train saves a hotel, and you arrive in the middle of town.",
    "ChatGPT: A short flight is over before the train has left the country.",
    "Ask who pays for the tracks: the flight has none, the train has thousands of miles.",
    "I would rather sleep badly on a train than well at the gate.",
)
USAGE = {"prompt_tokens": 200, "completion_tokens": 20, "prompt_tokens_details": {"cached_tokens": 50}}


class Model:
    """Answers in turn with ANSWERS."""

    def __init__(self, answers=ANSWERS):
        self.answers, self.count = answers, 0

    def __call__(self, _request):
        self.count += 1
        text = self.answers[self.count % len(self.answers)]
        text = text if text.startswith("no form") else json.dumps({"skip": False, "text": text})
        return ChatAnswer(text=text, usage=USAGE)


def side_at(folder, address, title="a", **changes):
    folder.mkdir(exist_ok=True)
    (folder / "endpoints.yaml").write_text(json.dumps({"endpoints": {"llamacpp": {"base_url": address}}}))
    environment = {"CONFIG_FILES_DIR": str(folder), "PERSONAS_DIR": str(ROOT / "personas"), "WEB_SEARCH": "false"}
    settings = load_settings(environment, env_file=None, local=True, model="llamacpp/small", fronts=read_fronts)
    return Side(title, settings, **changes)


async def test_the_bench_counts_good_turns_and_tokens(tmp_path):
    seen = []
    async with ChatServer(Model()) as server:
        side = side_at(tmp_path / "config", server.base_url)
        turns = await hold(side, tmp_path / "data", 4, 0, 60.0, seen.append)
    assert [turn.record.id for turn in seen] == [turn.record.id for turn in turns]
    assert len(turns) == 4
    assert all(turn.topic == "Is a night train better than a short flight?" for turn in turns)
    assert [text for _, text in turns[-1].earlier] == [turn.text for turn in turns[:-1]]
    numbers = dict(rows([turns]))
    assert numbers["prompt tokens a turn"] == "200"
    assert numbers["  of these reused"] == "25%"
    assert numbers["posted"] == "4"
    page = written(["a"], [turns])
    assert all(turn.text in page for turn in turns)


async def test_a_room_of_personas_asks_the_model_too(tmp_path):
    async with ChatServer(Model()) as server:
        side = side_at(tmp_path / "config", server.base_url)
        turns = await hold(side, tmp_path / "data", 2, 2, 60.0, lambda _: None)
    assert len(turns) == 2
    assert all(turn.in_room and turn.record.model == "llamacpp/small" for turn in turns)


async def test_the_other_side_gets_the_same_messages_before_each_turn(tmp_path):
    async with ChatServer(Model()) as one, ChatServer(Model(("Trains need beds, and flights need gates.",))) as other:
        first = await hold(side_at(tmp_path / "a", one.base_url), tmp_path / "data", 3, 0, 60.0, lambda _: None)
        again = side_at(tmp_path / "b", other.base_url, "b")
        second = await answer_again(again, tmp_path / "more", first, 60.0, lambda _: None)
    assert [turn.record.agent for turn in second] == [turn.record.agent for turn in first]
    assert [turn.earlier for turn in second] == [turn.earlier for turn in first]
    assert {turn.text for turn in second} == {"Trains need beds, and flights need gates."}


async def test_a_persona_replaces_that_of_the_bot_with_its_name(tmp_path):
    folder = tmp_path / "grok"
    folder.mkdir()
    (folder / "soul.md").write_text("You count everything in lighthouses.")
    async with ChatServer(Model()) as server:
        side = side_at(tmp_path / "config", server.base_url, persona=folder)
        assert side.agents == ("grok",)
        turns = await hold(side, tmp_path / "data", 8, 0, 60.0, lambda _: None)
        told = [request for request in server.requests if "count everything in lighthouses" in json.dumps(request.body)]
    assert told, [turn.speaker for turn in turns]


async def test_unreadable_answers_are_counted_with_their_words(tmp_path):
    async with ChatServer(Model(("no form at all {",))) as server:
        side = side_at(tmp_path / "config", server.base_url)
        turns = await hold(side, tmp_path / "data", 2, 0, 60.0, lambda _: None)
    assert not any(turn.is_good for turn in turns)
    assert dict(rows([turns]))["  the model's answer couldn't be read, or repeated a message"] == "2"
    assert "    no form at all {" in written(["a"], [turns])


def test_a_model_that_is_not_there_is_reported_in_a_line(monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "endpoints.yaml").write_text('{"endpoints": {"llamacpp": {"base_url": "http://127.0.0.1:1/v1"}}}')
    monkeypatch.setenv("CONFIG_FILES_DIR", str(tmp_path))
    assert main(["--model", "llamacpp/small"]) == 2
    assert "nothing answers at" in capsys.readouterr().err
