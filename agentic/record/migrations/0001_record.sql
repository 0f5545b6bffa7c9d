-- Times are unix seconds, money is US dollars, ids are Discord's snowflakes where nothing else is said.

CREATE TABLE conversations (
    id TEXT PRIMARY KEY,             -- opaque
    channel_id INTEGER NOT NULL,
    theme TEXT NOT NULL,
    starter TEXT NOT NULL DEFAULT '',
    topic TEXT,
    policy TEXT NOT NULL DEFAULT 'rounds',
    started_at REAL NOT NULL,
    ended_at REAL,
    ended_because TEXT,
    rounds INTEGER NOT NULL DEFAULT 0,
    messages INTEGER NOT NULL DEFAULT 0,
    skips INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX conversations_by_time ON conversations (started_at, id);
CREATE INDEX conversations_by_channel ON conversations (channel_id, started_at, id);

CREATE TABLE turns (
    seq INTEGER PRIMARY KEY,         -- orders turns of the same time
    agent TEXT NOT NULL,
    id TEXT NOT NULL,                -- the instruction's, or `m` and the message's
    at REAL NOT NULL,                -- when it ended
    day TEXT NOT NULL,               -- YYYY-MM-DD in the owner's time zone
    kind TEXT NOT NULL,
    trigger TEXT NOT NULL,
    outcome TEXT NOT NULL,           -- posted, reacted, skipped, refused, timed_out, failed
    reason TEXT,
    conversation_id TEXT,
    round INTEGER,
    channel_id INTEGER NOT NULL,
    guild_id INTEGER,
    asked_by INTEGER,                -- a person
    asked_message_id INTEGER,
    model TEXT NOT NULL DEFAULT '',  -- provider/model
    entries INTEGER NOT NULL DEFAULT 0,
    seconds REAL NOT NULL DEFAULT 0,
    waiting_seconds REAL NOT NULL DEFAULT 0,  -- a phase each: agentic.wire.entries.Phases
    context_seconds REAL NOT NULL DEFAULT 0,
    model_seconds REAL NOT NULL DEFAULT 0,
    tools_seconds REAL NOT NULL DEFAULT 0,
    posting_seconds REAL NOT NULL DEFAULT 0,
    input_tokens INTEGER NOT NULL DEFAULT 0,
    cached_tokens INTEGER NOT NULL DEFAULT 0,
    output_tokens INTEGER NOT NULL DEFAULT 0,
    cost_usd REAL NOT NULL DEFAULT 0,
    emoji TEXT,                      -- of its reaction
    reacted_to INTEGER,              -- a message
    image INTEGER NOT NULL DEFAULT 0,  -- 1: it drew one
    UNIQUE (agent, id)
) STRICT;
-- One index for each filter of the list of turns, in the list's order, and one that holds all that costs are summed by.
CREATE INDEX turns_by_time ON turns (at, seq);
CREATE INDEX turns_by_agent ON turns (agent, at, seq);
CREATE INDEX turns_by_channel ON turns (channel_id, at, seq);
CREATE INDEX turns_by_outcome ON turns (outcome, at, seq);
CREATE INDEX turns_by_model ON turns (model, at, seq);
CREATE INDEX turns_by_conversation ON turns (conversation_id, at, seq) WHERE conversation_id IS NOT NULL;
CREATE INDEX turns_by_person ON turns (asked_by, at, seq) WHERE asked_by IS NOT NULL;
CREATE INDEX turns_by_day ON turns (
    day, agent, channel_id, asked_by, outcome, at, cost_usd, input_tokens, cached_tokens, output_tokens
);

CREATE TABLE calls (
    agent TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    kind TEXT NOT NULL,              -- text, picture
    model TEXT NOT NULL,
    at REAL NOT NULL,
    day TEXT NOT NULL,
    seconds REAL NOT NULL,
    input_tokens INTEGER NOT NULL,
    cached_tokens INTEGER NOT NULL,
    cache_write_tokens INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    reasoning_tokens INTEGER NOT NULL,
    searches INTEGER NOT NULL,
    cost_usd REAL NOT NULL,
    error TEXT,                      -- the kind of error; "cancelled"
    PRIMARY KEY (agent, turn_id, n)
) STRICT;
CREATE INDEX calls_by_day ON calls (
    day, agent, model, kind, seconds, error, cost_usd, input_tokens, cached_tokens, output_tokens
);

-- The words of a call: one zlib blob of JSON, agentic.wire.entries.CallWords without `quoted`.
CREATE TABLE words (
    id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    at REAL NOT NULL,
    asked_by INTEGER,
    data BLOB,                       -- NULL: removed, `removed` says why
    removed TEXT,                    -- forgotten, deleted
    UNIQUE (agent, turn_id, n)
) STRICT;
CREATE INDEX words_by_time ON words (at);

-- Which messages the words of a call quote, and whose they are. A prompt has dozens, so a row is kept small: an author
-- is looked for so seldom that it has no index.
CREATE TABLE quotes (
    message_id INTEGER NOT NULL,
    words_id INTEGER NOT NULL,
    author_id INTEGER,
    PRIMARY KEY (message_id, words_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX quotes_by_words ON quotes (words_id);

CREATE TABLE posts (
    message_id INTEGER PRIMARY KEY,
    agent TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    channel_id INTEGER NOT NULL,
    at REAL NOT NULL,
    text TEXT NOT NULL DEFAULT '',   -- '' once it was deleted in Discord
    answers_message_id INTEGER,
    deleted_at REAL
) STRICT;
CREATE INDEX posts_by_turn ON posts (agent, turn_id);
CREATE INDEX posts_deleted ON posts (turn_id, agent) WHERE deleted_at IS NOT NULL;
CREATE INDEX posts_by_channel ON posts (channel_id, message_id);

CREATE TABLE pictures (
    message_id INTEGER PRIMARY KEY,
    media_type TEXT NOT NULL,
    data BLOB NOT NULL               -- scaled down
) STRICT;

CREATE TABLE tool_calls (
    agent TEXT NOT NULL,
    turn_id TEXT NOT NULL,
    n INTEGER NOT NULL,
    name TEXT NOT NULL,
    at REAL NOT NULL,
    seconds REAL NOT NULL,
    characters INTEGER NOT NULL,
    error INTEGER NOT NULL,
    PRIMARY KEY (agent, turn_id, n)
) STRICT;

CREATE TABLE reactions (
    message_id INTEGER NOT NULL,
    user_id INTEGER NOT NULL,
    emoji TEXT NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (message_id, user_id, emoji)
) STRICT, WITHOUT ROWID;
CREATE INDEX reactions_by_time ON reactions (at);

CREATE TABLE actions (
    id TEXT PRIMARY KEY,
    at REAL NOT NULL,
    by TEXT NOT NULL,                -- "console", a person's Discord id, or "forgotten" instead of it
    action TEXT NOT NULL,
    channel_id INTEGER,
    agent TEXT,
    detail TEXT NOT NULL DEFAULT '',
    outcome TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE INDEX actions_by_time ON actions (at, id);

-- Days before the record began: the cost keys of Redis, by import-costs.
CREATE TABLE imported_costs (
    agent TEXT NOT NULL,
    day TEXT NOT NULL,
    field TEXT NOT NULL,             -- total_cost, ai_cost, input_tokens …: agentic.state.budgets
    amount REAL NOT NULL,
    PRIMARY KEY (day, agent, field)
) STRICT, WITHOUT ROWID;

-- How far each stream was read: written with what was read, so that both are there or neither.
CREATE TABLE positions (
    stream TEXT PRIMARY KEY,
    last_id TEXT NOT NULL,
    last_n INTEGER NOT NULL,
    dropped INTEGER NOT NULL DEFAULT 0  -- entries that a bound removed before they were read
) STRICT;

-- Messages that were deleted in Discord lately: what is recorded after its deletion must not bring their words back.
CREATE TABLE deleted_messages (
    message_id INTEGER PRIMARY KEY,
    at REAL NOT NULL
) STRICT;
CREATE INDEX deleted_messages_by_time ON deleted_messages (at);

-- People who asked to be forgotten, and when: the same for them.
CREATE TABLE forgotten (
    user_id INTEGER PRIMARY KEY,
    at REAL NOT NULL
) STRICT;
