-- What the tool web_search was asked in a turn, and what it found. These are words of people in other words, so they go
-- with those of the turn's calls (agentic/record/personal_data.py).
CREATE TABLE searches (
    agent TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    n INTEGER NOT NULL,              -- tool_calls.n
    channel_id INTEGER NOT NULL,
    at REAL NOT NULL,
    seconds REAL NOT NULL,
    query TEXT NOT NULL,
    results TEXT NOT NULL,           -- a JSON list of pages: title, url
    error INTEGER NOT NULL,          -- 1: it failed
    PRIMARY KEY (agent, turn_id, n)
) STRICT;
CREATE INDEX searches_by_time ON searches (at);
