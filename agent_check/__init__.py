"""`python run_all.py --check`: check a set-up without posting. Asks Discord, models, tool servers and Redis.

    run.py          runs all checks concurrently, each with a time limit; a failing check does not stop the others
    bots.py         a bot's token, intents, servers, channels
    discord_view.py what a bot sees of its servers and channels; permissions.py: what it needs there
    model_keys.py   API keys and models
    forecast.py     what a day is likely to cost; automation.py counts turns by heartbeats, cron jobs and hooks
    tools.py        option files, tools and MCP servers
    machine.py      Redis, the data folder, the clock; setting_warnings.py: settings that name missing things
    report.py       prints the findings (findings.py) as a table or lines

Unlike a start it opens no gateway connection, takes no lease and posts no message.
"""

from agent_check.run import run_check

__all__ = ["run_check"]
