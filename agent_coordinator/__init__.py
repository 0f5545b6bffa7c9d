"""Turn-taking: when and where bots talk, and who speaks next. Knows neither Discord nor models."""
