"""The sub-commands of `python -m agent_store`: each module has `add(commands)`, which adds its own parser."""
