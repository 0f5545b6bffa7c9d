"""The console: a web page that shows what the bots do and what it costs, and acts on them. Knows no models."""
