"""The kinds of channels that bots speak in."""

from __future__ import annotations

import discord

GuildChannel = discord.TextChannel | discord.Thread | discord.VoiceChannel | discord.StageChannel
Channel = GuildChannel | discord.DMChannel
