-- What a room's page and later rooms tell of it.
ALTER TABLE rooms ADD COLUMN rules TEXT NOT NULL DEFAULT '';

-- What came of a room when it closed last.
CREATE TABLE room_conclusions (
    thread_id INTEGER PRIMARY KEY,
    channel_id INTEGER NOT NULL,     -- of the text channel above the thread
    guild_id INTEGER,
    topic TEXT NOT NULL,
    card TEXT NOT NULL,              -- as it was posted in the thread
    arguments TEXT NOT NULL,         -- a JSON list, like the next two
    agreed TEXT NOT NULL,
    unsettled TEXT NOT NULL,
    judge TEXT NOT NULL,             -- a bot's name or a model; '' for none
    verdict TEXT NOT NULL,
    message_ids TEXT NOT NULL,       -- the posts that it's made of, a JSON list
    people TEXT NOT NULL,            -- who wrote in the thread, a JSON list of ids
    closed_at REAL NOT NULL,         -- rooms.changed_at at that time
    at REAL NOT NULL
) STRICT;
CREATE INDEX room_conclusions_by_time ON room_conclusions (at);

-- A member's side, the judge's score from 0 to 10, and how many people came over to it, less those who left it.
ALTER TABLE contenders ADD COLUMN side TEXT NOT NULL DEFAULT '';
ALTER TABLE contenders ADD COLUMN score REAL;
ALTER TABLE contenders ADD COLUMN moved INTEGER;
