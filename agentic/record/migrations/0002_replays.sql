-- What replays have cost: calls of an agent's model outside of its turns.
CREATE TABLE replays (
    id TEXT PRIMARY KEY,             -- opaque
    at REAL NOT NULL,
    day TEXT NOT NULL,               -- YYYY-MM-DD: the one whose budget it used
    agent TEXT NOT NULL,
    model TEXT NOT NULL,             -- provider/model
    calls INTEGER NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    cost_usd REAL NOT NULL
) STRICT;
CREATE INDEX replays_by_day ON replays (day, agent);
CREATE INDEX replays_by_time ON replays (at);
