"""The one path that every turn takes, from admission to its result. Knows no queue and no cog."""
