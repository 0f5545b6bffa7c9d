-- A room's format, the topic in full if it is long, the members' sides, and the arguments that they made.
ALTER TABLE rooms ADD COLUMN format TEXT NOT NULL DEFAULT 'open';
ALTER TABLE rooms ADD COLUMN details TEXT NOT NULL DEFAULT '';
ALTER TABLE rooms ADD COLUMN sides TEXT NOT NULL DEFAULT '{}';    -- agent's key → side, a JSON object
ALTER TABLE rooms ADD COLUMN ledger TEXT NOT NULL DEFAULT '[]';   -- one a line, a JSON list
