-- Rooms: debates in threads, by the thread's id.
CREATE TABLE rooms (
    thread_id INTEGER PRIMARY KEY,
    channel_id INTEGER NOT NULL,     -- of the text channel above the thread
    guild_id INTEGER,
    conversation_id TEXT NOT NULL,
    topic TEXT NOT NULL,
    policy TEXT NOT NULL,
    members TEXT NOT NULL,           -- agents' keys, a JSON list
    left_members TEXT NOT NULL DEFAULT '[]',
    status TEXT NOT NULL,            -- active, paused, closed
    why TEXT,                        -- the cause of that
    turns INTEGER NOT NULL,          -- the limit
    turn_number INTEGER NOT NULL,
    opened_by INTEGER,               -- a person
    opened_at REAL NOT NULL,
    changed_at REAL NOT NULL
) STRICT;
CREATE INDEX rooms_by_time ON rooms (opened_at, thread_id);
CREATE INDEX rooms_by_change ON rooms (changed_at);
CREATE INDEX rooms_by_conversation ON rooms (conversation_id);

-- The newest messages of each room, as its agents last read them in Discord.
CREATE TABLE room_messages (
    message_id INTEGER PRIMARY KEY,
    thread_id INTEGER NOT NULL,
    author TEXT NOT NULL,            -- person, agent
    author_id INTEGER,               -- a person's
    agent TEXT,                      -- its key, where an agent wrote it
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    at REAL NOT NULL,
    read_at REAL NOT NULL            -- when an agent read it so: the newest reading counts
) STRICT;
CREATE INDEX room_messages_by_thread ON room_messages (thread_id, message_id);
CREATE INDEX room_messages_by_author ON room_messages (author_id) WHERE author_id IS NOT NULL;

-- People's votes on agents: of an arena, or of a room at its end.
CREATE TABLE contests (
    id TEXT PRIMARY KEY,             -- opaque
    kind TEXT NOT NULL,              -- arena, room
    at REAL NOT NULL,
    channel_id INTEGER NOT NULL,
    question TEXT NOT NULL,
    asked_by INTEGER
) STRICT;
CREATE INDEX contests_by_time ON contests (at, id);

CREATE TABLE contenders (
    contest_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    model TEXT NOT NULL,
    votes INTEGER NOT NULL,
    PRIMARY KEY (contest_id, agent, model)
) STRICT, WITHOUT ROWID;

ALTER TABLE turns ADD COLUMN chosen_because TEXT;  -- why the coordinator's policy chose the agent
ALTER TABLE turns ADD COLUMN room_turn INTEGER;    -- the number of the turn in its room
