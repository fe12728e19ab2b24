-- What schema 3 has beside `schema.sql`, and older ledgers get.

-- Long bodies, as `contents.rs` writes them. Content.
CREATE TABLE bodies (
    request INTEGER PRIMARY KEY REFERENCES requests (number),
    -- The request that this one's differs from; nothing where it is whole.
    base INTEGER REFERENCES bodies (request),
    -- How many bytes of that one's stand at the beginning, and how many at the end.
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    -- What is between them, compressed as `blobs.rs` says.
    middle BLOB NOT NULL
) STRICT;

-- Long prompts, likewise, in tokens as `blobs.rs` writes ids. Content.
CREATE TABLE prompts (
    request INTEGER PRIMARY KEY REFERENCES requests (number),
    base INTEGER REFERENCES prompts (request),
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    middle BLOB NOT NULL
) STRICT;
