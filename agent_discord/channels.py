"""The kinds of channels that bots speak in."""

from __future__ import annotations

import discord

Channel = discord.TextChannel | discord.Thread | discord.VoiceChannel | discord.StageChannel
