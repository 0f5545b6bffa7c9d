"""Tools of MCP servers. Only this folder imports the mcp package."""
