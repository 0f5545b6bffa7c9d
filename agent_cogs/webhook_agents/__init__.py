"""Personas without a bot: an AgentHost each, whose view is a bot's and whose sink is a webhook. Knows no py-cord."""
