"""Turn-taking: when, where, and who speaks; no Discord, no models."""
