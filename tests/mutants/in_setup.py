"""Mistakes in agent_setup."""

from __future__ import annotations

from tests.mutants.mutant import of

PLACE = "agent_setup/test_env_place.py"
FLOW = "agent_setup/test_setup_flow.py"

IN_SETUP = (
    *of(
        "agent_setup/env_place.py",
        PLACE,
        (
            "                one.unlink(missing_ok=True)\n",
            "                one.exists()\n",
            "an interrupted write leaves no file with secrets behind",
        ),
        (
            "        if made and made[0].exists():\n",
            "        if made:\n",
            "the old file is kept once the new one is in its place",
        ),
        (
            "and not before.st_mode & _WORLD\n",
            "\n",
            "a file that everybody could read is nobody else's afterwards",
        ),
        (
            "        return mode & ~stat.S_IRGRP\n",
            "        return mode\n",
            "no other group gets the right to read",
        ),
    ),
    *of(
        "agent_setup/env_text.py",
        "agent_setup/test_env_text.py",
        (
            "    if _PLAIN.fullmatch(value):\n",
            "    if _PLAIN.match(value):\n",
            "what needs quotation marks has them",
        ),
        (
            "{match['tail']}",
            "",
            "the rest of a changed line stays",
        ),
    ),
    *of(
        "agent_setup/setup.py",
        "agent_setup/test_leaving.py",
        (
            "            signal.signal(number, signal.default_int_handler)\n",
            "            signal.signal(number, signal.SIG_DFL)\n",
            "a signal ends the set-up with the echo switched on",
        ),
        (
            "Redactor(_secrets(session)).secrets(traceback.format_exc())",
            "traceback.format_exc()",
            "a crash shows no token",
        ),
    ),
    *of(
        "agent_setup/bots.py",
        FLOW,
        (
            "        if other != agent.name and bot.id == found.id:\n",
            "        if False:\n",
            "one token is not taken for two bots",
        ),
    ),
    *of(
        "agent_setup/channels.py",
        FLOW,
        (
            '        session.answers.give(OLD_CHANNELS, "")',
            "        session.answers.get(OLD_CHANNELS)",
            "an old list of channels hides none that was chosen",
        ),
    ),
    *of(
        "agent_setup/keys.py",
        FLOW,
        (
            "                session.answers.give(setting, before)\n",
            "                session.answers.get(setting)\n",
            "a refused key is not written",
        ),
    ),
)
