"""`python run_all.py --setup`: ask an owner for what going live needs, check each answer at once, and write `.env`.

    setup.py       the order of the questions, the summary, and the end; nothing is written before the last question
    bots.py        a Discord token for each bot; keys.py: its provider's API key
    servers.py     invite links, and the servers that the bots are in
    channels.py    the channels, in Discord's order, and a theme for each
    habits.py      time zone and budget
    dialogue.py    questions and answers in a terminal or through a pipe
    pasted.py      pure: clean what was pasted, and recognise what is no token or key; choices.py: numbers and names
    answers.py     the answers so far, over the environment and the `.env` that exists
    session.py     what all questions share; lookups.py: what Discord and the providers are asked
    env_text.py    pure: settings put into the text of a .env file; env_place.py: where it is, and the write

Knows Discord and the providers only through agent_check. Only agent_runtime/cli.py imports it.
"""
