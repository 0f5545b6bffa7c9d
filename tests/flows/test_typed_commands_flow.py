"""The bots' commands as a person types them in the terminal of local mode, over the whole program."""

import io
from functools import partial

from rich.console import Console

from agent_cogs.slash_definitions import command_list
from agentic.local.person import CommandUse
from agentic.local.terminal.terminal import LocalConversations, Screen, Terminal
from agentic.local.terminal.view import Names, SavedFiles
from agentic.themes import THEMES
from tests.flows.test_commands_flow import ready
from tests.support.flow import SHOWN, flow
from tests.support.recorded import recorded
from tests.support.redis_server import until


async def typed(f, runtime, files, *script):
    """Type lines, each once the words beside the line before it are on the screen."""
    screen, save = io.StringIO(), SavedFiles(files, f.discord.world.attachments).save

    async def lines():
        seen = 0
        for line, words in script:
            yield line
            await f.discord.wait_for(lambda words=words, seen=seen: words in screen.getvalue()[seen:])
            seen = screen.getvalue().index(words, seen) + len(words)

    terminal = Terminal(
        Screen(console=Console(file=screen, width=200)),
        f.discord,
        names=Names(
            channels={channel.id: channel.name for channel in f.world.guild.channels.values()},
            users={},
            roles={},
            themes=tuple(THEMES),
            commands=command_list(SHOWN),
        ),
        me="Alice",
        conversations=LocalConversations(runtime, f.world),
        use=CommandUse(f.discord, "Alice", f.settings.personas_dir, save),
        lines=lines(),
    )
    terminal.channel = f.channel("debate")
    await terminal.run()


async def test_a_room_is_created_by_its_menu_and_by_names_steered_and_exported(tmp_path):
    slow = {"COORDINATOR_TURN_DELAY_MIN": "60", "COORDINATOR_TURN_DELAY_MAX": "60"}
    async with flow(tmp_path, **slow) as f, f.running(agents=("chatgpt", "claude")) as runtime:
        await ready(f)
        types = partial(typed, f, runtime, tmp_path / "files")
        await types(
            ("/room create Is P equal to NP? turns: 9", "Who takes part in “Is P equal to NP?”?"),
            ("claude", "choose 2"),
            ("2 1", "The room is open: #room-1"),
            ("#room-1", "you are in #room-1"),
            ("/room stop", "#room-1 is paused"),
            ("/room resume turns: 4", "#room-1 has resumed"),
            ("#debate", "you are in #debate"),
            ("#room-1 /room status", "Status: running, turn"),
            ("/room stop is P equal", "#room-1 is paused"),
            ("/room create topic: Tea? personas: claude, chatgpt turns: 2", "The room is open: #room-2"),
        )
        await until(lambda: recorded(tmp_path, "SELECT 1 FROM rooms JOIN room_messages USING (thread_id)"))
        await types(("/room export is P equal", ".html"))
        tea, first = await runtime.services.state.coordination.rooms.list()
    assert (tea.topic, tea.names, tea.turns) == ("Tea?", ("claude", "chatgpt"), 2)
    assert (first.topic, first.names, first.turns) == ("Is P equal to NP?", ("claude", "chatgpt"), 13)
    (page,) = (tmp_path / "files").iterdir()
    assert "Is P equal to NP?" in page.read_text()


async def test_a_persona_is_created_in_the_terminal_and_a_form_without_a_topic_opens_its_room(tmp_path):
    async with flow(tmp_path) as f, f.running(agents=("chatgpt", "claude"), personas=True) as runtime:
        await ready(f)
        await typed(
            f,
            runtime,
            tmp_path / "files",
            ("/agent create", "New persona (/cancel to leave)"),
            ("Clio", "Who it is"),
            ("You doubt every date.", "Model"),
            ("", "Interests"),
            ("history", "an empty line skips it"),
            ("", "Clio"),
            ("/agent show clio", "You doubt every date."),
            ("/room create", "New room (/cancel to leave)"),
            ("Who was first?", "Who takes part"),
            ("Clio, Claude", "Settings"),
            ("", "Rules"),
            ("", "First question"),
            ("", "The room is open: #room-1"),
        )
        (room,) = await runtime.services.state.coordination.rooms.list()
    assert (room.topic, room.names) == ("Who was first?", ("clio", "claude"))
    assert (tmp_path / "personas" / "clio" / "soul.md").read_text() == "You doubt every date.\n"
