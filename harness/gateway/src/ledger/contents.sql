-- What schema 4 has beside `schema.sql`, and older ledgers get.

-- Long bodies, as `contents.rs` writes them. Content.
CREATE TABLE bodies (
    request INTEGER PRIMARY KEY REFERENCES requests (number),
    -- The request that this one's differs from; nothing where it is whole.
    base INTEGER REFERENCES bodies (request),
    -- Whether that one is of another session, which may be deleted without this one.
    elsewhere INTEGER NOT NULL CHECK (elsewhere IN (0, 1)),
    -- How many bytes of that one's stand at the beginning, and how many at the end.
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    -- What is between them, compressed as `blobs.rs` says.
    middle BLOB NOT NULL
) STRICT;
CREATE INDEX bodies_elsewhere ON bodies (base) WHERE elsewhere = 1;

-- Long prompts, likewise, in tokens as `blobs.rs` writes ids. Content.
CREATE TABLE prompts (
    request INTEGER PRIMARY KEY REFERENCES requests (number),
    base INTEGER REFERENCES prompts (request),
    elsewhere INTEGER NOT NULL CHECK (elsewhere IN (0, 1)),
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    middle BLOB NOT NULL
) STRICT;
CREATE INDEX prompts_elsewhere ON prompts (base) WHERE elsewhere = 1;
