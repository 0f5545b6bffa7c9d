"""Slash commands on Discord's side: definitions, interactions, responses. agent_cogs/slash handles them."""
