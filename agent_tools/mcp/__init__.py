"""Tools of MCP servers. The mcp package is imported only here."""
