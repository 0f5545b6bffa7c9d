"""Tools of a model: protocol, call loop, the built-in ones, MCP servers, the log of calls. Knows no channel."""
