"""A Discord stand-in on loopback: REST v10 and gateway v10, enough that unmodified py-cord logs in and runs.

    world = small_world(bots={"claude": ("Claude", "token-claude")})
    async with DiscordStandIn(world) as server:
        with routed_to(server):
            ...  # start bots with their tokens
            await server.say("you", "debate", "hello <@...>")

world/ holds what exists and what can happen to it, rest/ and gateway/ show it to bots, backend.py connects them.
"""
