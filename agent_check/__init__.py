"""`python run_all.py --check`: is this set-up ready to start? Asks Discord, models, tool servers, Redis; posts nothing.

    run.py          every check side by side, each within its time, one that breaks stops no other
    bots.py         a bot's token, intents, servers, channels
    discord_view.py what a bot sees of its servers and channels; permissions.py: what it needs there
    model_keys.py   API keys and models
    forecast.py     what the schedule costs in a day
    tools.py        the tools, and the MCP servers of the owner's file
    machine.py      Redis, the data folder, the clock
    report.py       findings.py as a table or lines

It differs from a start in what it leaves out: no gateway connection, no lease, no message.
"""

from agent_check.run import run_check

__all__ = ["run_check"]
