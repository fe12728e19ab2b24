-- Tables of schema 4, which older ledgers get in a migration.

-- Long bodies, encoded as in `contents.rs`. Content.
CREATE TABLE bodies (
    request INTEGER PRIMARY KEY REFERENCES requests (number),
    -- The request of the base; null if it is stored whole.
    base INTEGER REFERENCES bodies (request),
    -- Whether the base belongs to another session, which may be deleted alone.
    elsewhere INTEGER NOT NULL CHECK (elsewhere IN (0, 1)),
    -- Bytes shared with the start and with the end of the base.
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    -- The bytes between them, compressed as in `blobs.rs`.
    middle BLOB NOT NULL
) STRICT;
CREATE INDEX bodies_elsewhere ON bodies (base) WHERE elsewhere = 1;

-- Long prompts in the same form, in tokens encoded as in `blobs.rs`. Content.
CREATE TABLE prompts (
    request INTEGER PRIMARY KEY REFERENCES requests (number),
    base INTEGER REFERENCES prompts (request),
    elsewhere INTEGER NOT NULL CHECK (elsewhere IN (0, 1)),
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    middle BLOB NOT NULL
) STRICT;
CREATE INDEX prompts_elsewhere ON prompts (base) WHERE elsewhere = 1;
