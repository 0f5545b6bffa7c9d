-- What was said in channels whose messages are logged, and what was made of it. The index of what may be recalled is not
-- among these tables: the recorder creates it where SQLite has FTS5 (agentic/record/memory_index.py).

CREATE TABLE message_log (
    message_id INTEGER PRIMARY KEY,
    channel_id INTEGER NOT NULL,
    guild_id INTEGER,
    service TEXT NOT NULL,           -- discord, signal
    author TEXT NOT NULL,            -- person, agent, stranger
    author_id INTEGER,               -- a person's, or a stranger's
    agent TEXT,                      -- its key, where an agent wrote it
    name TEXT NOT NULL,
    text TEXT NOT NULL,
    reply_to INTEGER,                -- the message that it answers
    at REAL NOT NULL,
    read_at REAL NOT NULL            -- when it read so: the newest reading counts
) STRICT;
CREATE INDEX message_log_by_channel ON message_log (channel_id, message_id);
CREATE INDEX message_log_by_author ON message_log (author_id, message_id) WHERE author_id IS NOT NULL;
CREATE INDEX message_log_by_agent ON message_log (agent, channel_id, message_id) WHERE agent IS NOT NULL;
CREATE INDEX message_log_by_parent ON message_log (reply_to, message_id) WHERE reply_to IS NOT NULL;
CREATE INDEX message_log_replies ON message_log (channel_id, message_id) WHERE reply_to IS NOT NULL;

-- Channels that were deleted lately: their messages may still be on their way here.
CREATE TABLE deleted_channels (
    channel_id INTEGER PRIMARY KEY,
    at REAL NOT NULL
) STRICT;

-- Summaries of reply chains, up to and with a message.
CREATE TABLE summaries (
    message_id INTEGER PRIMARY KEY,
    channel_id INTEGER NOT NULL,
    agent TEXT NOT NULL,             -- whose model made it
    text TEXT NOT NULL,
    at REAL NOT NULL
) STRICT;
CREATE INDEX summaries_by_channel ON summaries (channel_id);

-- The messages that a summary is made of, and the people who wrote them.
CREATE TABLE summary_sources (
    message_id INTEGER NOT NULL,
    summary_id INTEGER NOT NULL REFERENCES summaries (message_id) ON DELETE CASCADE,
    PRIMARY KEY (message_id, summary_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX summary_sources_by_summary ON summary_sources (summary_id);

CREATE TABLE summary_people (
    user_id INTEGER NOT NULL,
    summary_id INTEGER NOT NULL REFERENCES summaries (message_id) ON DELETE CASCADE,
    PRIMARY KEY (user_id, summary_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX summary_people_by_summary ON summary_people (summary_id);

-- Topics that a person talks about: a model's list and the person's own, which are shown as one (agentic/record/profiles.py).
CREATE TABLE profiles (
    user_id INTEGER NOT NULL,
    by TEXT NOT NULL,                -- model, person
    name TEXT NOT NULL,
    topics TEXT NOT NULL,            -- a JSON list
    upto INTEGER NOT NULL,           -- the newest message that it knows
    deleted INTEGER NOT NULL,        -- 1: the person removed it
    at REAL NOT NULL,
    PRIMARY KEY (user_id, by)
) STRICT, WITHOUT ROWID;

CREATE TABLE consents (
    user_id INTEGER PRIMARY KEY,
    unasked INTEGER NOT NULL,        -- 1: wants messages that nobody asked for
    because TEXT NOT NULL,
    at REAL NOT NULL
) STRICT;

-- Messages that agents posted unasked.
CREATE TABLE unasked (
    message_id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    task TEXT NOT NULL,              -- follow_up, discover
    channel_id INTEGER NOT NULL,
    person_id INTEGER,
    cause TEXT NOT NULL,
    text TEXT NOT NULL,
    at REAL NOT NULL
) STRICT;
CREATE INDEX unasked_by_time ON unasked (at);
CREATE INDEX unasked_by_channel ON unasked (channel_id, at);
CREATE INDEX unasked_by_person ON unasked (person_id) WHERE person_id IS NOT NULL;

-- What messages and summaries mean, as vectors of EMBEDDING_MODEL. A summary has minus its message's id.
CREATE TABLE embeddings (
    id INTEGER PRIMARY KEY,
    model TEXT NOT NULL,             -- provider/model
    vector BLOB NOT NULL             -- 32-bit floats, little-endian
) STRICT;

-- A vector goes with its text, and where the text changes.
CREATE TRIGGER embeddings_message_deleted AFTER DELETE ON message_log BEGIN
    DELETE FROM embeddings WHERE id = old.message_id;
END;
CREATE TRIGGER embeddings_message_changed AFTER UPDATE OF text ON message_log WHEN old.text <> new.text BEGIN
    DELETE FROM embeddings WHERE id = old.message_id;
END;
CREATE TRIGGER embeddings_summary_deleted AFTER DELETE ON summaries BEGIN
    DELETE FROM embeddings WHERE id = -old.message_id;
END;
CREATE TRIGGER embeddings_summary_changed AFTER UPDATE OF text ON summaries WHEN old.text <> new.text BEGIN
    DELETE FROM embeddings WHERE id = -old.message_id;
END;
