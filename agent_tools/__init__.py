"""Tools for models: protocol, call loop, built-in tools, MCP servers, the log of calls. Knows no channel."""
