"""Turn-taking: when and where the agents converse, and who speaks next. Knows neither Discord nor models."""
