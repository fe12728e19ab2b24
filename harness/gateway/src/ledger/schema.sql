-- Chat's ledger, schema 6. Times are Unix times in milliseconds, unless their name says otherwise. JSON is text.
-- "Content" is whatever a person or a policy said, or what gives it back: deletion takes it, the rest of a row stays.

CREATE TABLE users (
    -- The name that the user's keys map to.
    id TEXT NOT NULL PRIMARY KEY,
    created_ms INTEGER NOT NULL,
    -- Whether their turns may train the adapter that all share; no, until they say yes.
    shares INTEGER NOT NULL DEFAULT 0 CHECK (shares IN (0, 1)),
    -- When they last said so; nothing where they never did.
    shares_ms INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    -- Rising and never used twice, whatever is deleted: `sqlite_sequence` has the last one that was set aside. (Older ledgers say
    -- AUTOINCREMENT here, which writes the same number to that table again with each request.)
    number INTEGER PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users (id),
    -- The path that was asked.
    endpoint TEXT NOT NULL,
    received_ms INTEGER NOT NULL,
    -- [[name, value], ..]: those that linking reads. Content.
    headers TEXT,
    -- As received, after redaction; in older ledgers zstd. Nothing where it is in `bodies`. Content.
    body BLOB,
    -- Of the body before compression.
    body_bytes INTEGER NOT NULL,
    -- Of ledgers that an older program began: SHA-256 of the body. Nobody reads it.
    body_sha256 BLOB,
    -- {rule: number of matches} of what was taken out of body and headers.
    redacted TEXT NOT NULL,
    -- The model that was asked for. Content, as clients write it.
    model TEXT,
    -- The sampling parameters that were asked for, as JSON. Content, as clients write it.
    sampling TEXT,
    -- Tokens as fed to the policy, as `blobs.rs` writes ids; nothing where they are not known, or in `prompts`. Content.
    prompt_ids BLOB,
    session INTEGER NOT NULL REFERENCES sessions (id) DEFERRABLE INITIALLY DEFERRED,
    turn INTEGER NOT NULL REFERENCES turns (id) DEFERRABLE INITIALLY DEFERRED,
    kind TEXT NOT NULL CHECK (kind IN ('main', 'side', 'unknown')),
    -- Why it is a side turn, or why it is not known what it is; in words.
    mark TEXT,
    -- Whether it is an earlier request of the turn again.
    is_retry INTEGER NOT NULL CHECK (is_retry IN (0, 1)),
    state TEXT NOT NULL CHECK (state IN ('waiting', 'answered', 'empty', 'failed')),
    -- Why it failed.
    reason TEXT,
    -- From its arrival to the first token, in milliseconds.
    first_token_after_ms INTEGER,
    -- When it was answered or failed.
    ended_ms INTEGER,
    -- Tokens, as reported to the client.
    prompt_tokens INTEGER,
    completion_tokens INTEGER,
    deleted_ms INTEGER,
    CHECK ((state = 'waiting') = (ended_ms IS NULL)),
    CHECK (deleted_ms IS NULL OR coalesce(headers, body, body_sha256, model, sampling, prompt_ids) IS NULL)
) STRICT;
CREATE INDEX requests_of_turn ON requests (turn);
CREATE INDEX requests_waiting ON requests (number) WHERE state = 'waiting';

CREATE TABLE answers (
    request INTEGER NOT NULL REFERENCES requests (number),
    -- From 0.
    choice INTEGER NOT NULL,
    -- As sent, after redaction. Content.
    text TEXT,
    reasoning TEXT,
    -- [{id, name, arguments}, ..] as sent, after redaction. Content.
    calls TEXT,
    finish_reason TEXT NOT NULL,
    -- {rule: number of matches} of what was taken out.
    redacted TEXT NOT NULL,
    -- Tokens as sampled, as `blobs.rs` writes ids. Content.
    sampled_ids BLOB,
    -- Natural logarithms of their probabilities when sampled: f32, little-endian. Content.
    logprobs BLOB,
    -- [[index of the first token, version of the weights], ..].
    versions TEXT NOT NULL,
    -- The adapter that answered; nothing for the base model.
    adapter TEXT,
    temperature REAL,
    top_p REAL,
    top_k INTEGER,
    seed INTEGER,
    -- Whether ids and log-probabilities are exactly what the policy sampled, of a turn that may be trained.
    exact INTEGER NOT NULL CHECK (exact IN (0, 1)),
    -- Why it is not, in words.
    inexact TEXT,
    deleted_ms INTEGER,
    PRIMARY KEY (request, choice),
    CHECK ((exact = 1) = (inexact IS NULL)),
    CHECK (deleted_ms IS NULL OR (exact = 0 AND coalesce(text, reasoning, calls, sampled_ids, logprobs) IS NULL))
) STRICT;

CREATE TABLE sessions (
    -- The request that opened it.
    id INTEGER PRIMARY KEY REFERENCES requests (number) DEFERRABLE INITIALLY DEFERRED,
    user TEXT NOT NULL REFERENCES users (id),
    -- By what its requests are known.
    evidence TEXT NOT NULL,
    opened_ms INTEGER NOT NULL,
    closed_ms INTEGER,
    -- Why it is over.
    why TEXT,
    -- The one it is in, or was in when it ended.
    epoch INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_of_user ON sessions (user, id);
CREATE INDEX sessions_open ON sessions (id) WHERE closed_ms IS NULL;

-- Epochs of sessions that are over.
CREATE TABLE epochs (
    session INTEGER NOT NULL REFERENCES sessions (id),
    epoch INTEGER NOT NULL,
    -- The first request of the next one.
    request INTEGER NOT NULL REFERENCES requests (number) DEFERRABLE INITIALLY DEFERRED,
    -- How it is known that it is over.
    why TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (session, epoch)
) STRICT, WITHOUT ROWID;

CREATE TABLE turns (
    -- The request that opened it.
    id INTEGER PRIMARY KEY REFERENCES requests (number) DEFERRABLE INITIALLY DEFERRED,
    session INTEGER NOT NULL REFERENCES sessions (id) DEFERRABLE INITIALLY DEFERRED,
    user TEXT NOT NULL REFERENCES users (id),
    epoch INTEGER NOT NULL,
    evidence TEXT NOT NULL,
    -- The turn whose answer its request contains last.
    parent INTEGER REFERENCES turns (id),
    -- The first turn with the same history behind it.
    sibling INTEGER REFERENCES turns (id),
    kind TEXT NOT NULL CHECK (kind IN ('main', 'side', 'unknown')),
    mark TEXT,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'answered', 'unanswered')),
    -- The session ended, and nothing came after its answer.
    ended_without_next_state INTEGER NOT NULL DEFAULT 0 CHECK (ended_without_next_state IN (0, 1)),
    deleted_ms INTEGER,
    -- The beginning of what the user said in it; nothing in older ledgers, and where it goes on from results of tools alone. Content.
    said TEXT CHECK (deleted_ms IS NULL OR said IS NULL)
) STRICT;
CREATE INDEX turns_of_session ON turns (session, id);

-- What reached the linking, in its order: linked again in this order, the open sessions are what they were.
CREATE TABLE happenings (
    -- Rising: none is ever deleted.
    place INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id) DEFERRABLE INITIALLY DEFERRED,
    what TEXT NOT NULL CHECK (what IN ('arrived', 'answered', 'failed', 'close')),
    -- Nothing for a close.
    request INTEGER REFERENCES requests (number) DEFERRABLE INITIALLY DEFERRED,
    at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE next_states (
    turn INTEGER PRIMARY KEY REFERENCES turns (id),
    -- The request and the choice that were gone on from.
    answered INTEGER NOT NULL REFERENCES requests (number),
    choice INTEGER NOT NULL,
    -- The request that it is in. Its body has the words.
    request INTEGER NOT NULL REFERENCES requests (number) DEFERRABLE INITIALLY DEFERRED,
    -- By what it was found.
    found_by TEXT NOT NULL,
    -- [[place in the request, kind, place of the call or null], ..].
    messages TEXT NOT NULL,
    -- [place in the request, ..] of what is not part of it.
    aside TEXT NOT NULL,
    calls_without_result INTEGER NOT NULL
) STRICT;
CREATE INDEX next_states_in ON next_states (request);

CREATE TABLE feedback (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL REFERENCES users (id),
    session INTEGER NOT NULL REFERENCES sessions (id) DEFERRABLE INITIALLY DEFERRED,
    -- Nothing for a reaction before the first answer.
    turn INTEGER REFERENCES turns (id),
    -- The request that told it; nothing where it came by itself.
    request INTEGER REFERENCES requests (number) DEFERRABLE INITIALLY DEFERRED,
    source TEXT NOT NULL CHECK (source IN ('api', 'reaction', 'extension')),
    thumb INTEGER CHECK (thumb IN (-1, 0, 1)),
    -- After redaction. Content.
    text TEXT,
    -- Whatever number was given; its unit is the giver's.
    score REAL,
    -- {channel, change, emoji, by, message, at} of a reaction. Content.
    reaction TEXT,
    at_ms INTEGER NOT NULL,
    deleted_ms INTEGER,
    -- The answer that it is about: request and choice. Nothing in older ledgers, and where a reaction does not say.
    answered INTEGER,
    choice INTEGER,
    CHECK (deleted_ms IS NULL OR coalesce(thumb, text, score, reaction) IS NULL)
) STRICT;
CREATE INDEX feedback_of_turn ON feedback (turn);
CREATE INDEX feedback_of_session ON feedback (session);

CREATE TABLE votes (
    turn INTEGER NOT NULL REFERENCES turns (id),
    judge TEXT NOT NULL,
    -- Which of the judge's votes about this turn, from 0.
    ballot INTEGER NOT NULL,
    score INTEGER CHECK (score IN (-1, 0, 1)),
    -- Why there is no score.
    reason TEXT,
    -- What the policy should have known. Content.
    hint TEXT,
    -- The judge's words. Content.
    raw TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (turn, judge, ballot),
    CHECK ((score IS NULL) = (reason IS NOT NULL))
) STRICT;

CREATE TABLE rewards (
    turn INTEGER PRIMARY KEY REFERENCES turns (id),
    value REAL NOT NULL,
    -- From what it was computed, in words.
    source TEXT NOT NULL,
    at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE samples (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL REFERENCES users (id),
    turn INTEGER NOT NULL REFERENCES turns (id),
    request INTEGER NOT NULL,
    choice INTEGER NOT NULL,
    reward REAL NOT NULL,
    -- Content.
    hint TEXT,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'taken', 'trained', 'rejected', 'dropped')),
    -- Why it was dropped.
    reason TEXT,
    -- When it came into its state.
    at_ms INTEGER NOT NULL,
    -- One sample for each answer.
    UNIQUE (request, choice),
    FOREIGN KEY (request, choice) REFERENCES answers (request, choice),
    CHECK ((state = 'dropped') = (reason IS NOT NULL))
) STRICT;
CREATE INDEX samples_of_turn ON samples (turn);
CREATE INDEX samples_waiting ON samples (id) WHERE state = 'waiting';
CREATE INDEX samples_taken ON samples (id) WHERE state = 'taken';

CREATE TABLE updates (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    -- By which whoever trains finds it again.
    key TEXT NOT NULL UNIQUE,
    adapter TEXT NOT NULL,
    objective TEXT NOT NULL,
    version_before INTEGER NOT NULL,
    -- The version that it made; nothing until it is accepted.
    version_after INTEGER,
    -- Lost: it was accepted, but the checkpoint that training goes on from is without it.
    state TEXT NOT NULL CHECK (state IN ('running', 'accepted', 'rejected', 'lost')),
    -- [why it was rejected, ..] as JSON.
    reasons TEXT NOT NULL,
    -- Figures of it as a JSON object.
    metrics TEXT NOT NULL,
    began_ms INTEGER NOT NULL,
    ended_ms INTEGER,
    CHECK (state <> 'accepted' OR version_after IS NOT NULL)
) STRICT;

CREATE TABLE update_samples (
    "update" INTEGER NOT NULL REFERENCES updates (id),
    sample INTEGER NOT NULL REFERENCES samples (id),
    outcome TEXT NOT NULL CHECK (outcome IN ('taken', 'trained', 'rejected', 'returned')),
    PRIMARY KEY ("update", sample)
) STRICT, WITHOUT ROWID;
-- A sample is trained at most once, and is in no two updates at a time.
CREATE UNIQUE INDEX trained_once ON update_samples (sample) WHERE outcome IN ('taken', 'trained');
CREATE INDEX updates_of_sample ON update_samples (sample);

CREATE TABLE versions (
    adapter TEXT NOT NULL,
    version INTEGER NOT NULL,
    -- The version that it was made from; nothing for the first.
    parent INTEGER,
    -- Counts the times that training went on from an older version.
    branch INTEGER NOT NULL,
    accepted INTEGER NOT NULL CHECK (accepted IN (0, 1)),
    -- Path of its checkpoint, where it has one.
    checkpoint TEXT,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (adapter, version)
) STRICT, WITHOUT ROWID;
