-- Schema 6 of the chat ledger. Times are Unix times in milliseconds unless their name says otherwise. JSON is text.
-- "Content" is text of a person or a policy, or data that reveals it: deletion removes it, the rest of the row remains.

CREATE TABLE users (
    -- Name of the user in the key file.
    id TEXT NOT NULL PRIMARY KEY,
    created_ms INTEGER NOT NULL,
    -- Whether the user's turns may train the shared adapter; no by default.
    shares INTEGER NOT NULL DEFAULT 0 CHECK (shares IN (0, 1)),
    -- When this was last set; null if never.
    shares_ms INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
    -- Rising and never reused: `sqlite_sequence` has the last reserved number. (Older ledgers have
    -- AUTOINCREMENT here, which writes the number to that table with each request.)
    number INTEGER PRIMARY KEY,
    user TEXT NOT NULL REFERENCES users (id),
    -- Requested path.
    endpoint TEXT NOT NULL,
    received_ms INTEGER NOT NULL,
    -- [[name, value], ..] of the headers that linking reads. Content.
    headers TEXT,
    -- As received, after redaction; zstd in older ledgers. Null if it is in `bodies`. Content.
    body BLOB,
    -- Size before compression.
    body_bytes INTEGER NOT NULL,
    -- SHA-256 of the body, in older ledgers. Not read.
    body_sha256 BLOB,
    -- {rule: number of matches} of the redaction of body and headers.
    redacted TEXT NOT NULL,
    -- Requested model. Content, because clients write it.
    model TEXT,
    -- Requested sampling parameters, as JSON. Content, because clients write them.
    sampling TEXT,
    -- Token ids of the prompt, encoded as in `blobs.rs`; null if unknown, or in `prompts`. Content.
    prompt_ids BLOB,
    session INTEGER NOT NULL REFERENCES sessions (id) DEFERRABLE INITIALLY DEFERRED,
    turn INTEGER NOT NULL REFERENCES turns (id) DEFERRABLE INITIALLY DEFERRED,
    kind TEXT NOT NULL CHECK (kind IN ('main', 'side', 'unknown')),
    -- Why it is not part of a main turn.
    mark TEXT,
    -- Whether it repeats an earlier request of the turn.
    is_retry INTEGER NOT NULL CHECK (is_retry IN (0, 1)),
    state TEXT NOT NULL CHECK (state IN ('waiting', 'answered', 'empty', 'failed')),
    -- Why it failed.
    reason TEXT,
    -- Milliseconds from its arrival to the first token.
    first_token_after_ms INTEGER,
    -- When it was answered or failed.
    ended_ms INTEGER,
    -- Token counts as reported to the client.
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
    -- {rule: number of matches} of the redaction.
    redacted TEXT NOT NULL,
    -- Sampled token ids, encoded as in `blobs.rs`. Content.
    sampled_ids BLOB,
    -- Their log-probabilities at sampling, in nats: f32, little-endian. Content.
    logprobs BLOB,
    -- [[index of the first token, version of the weights], ..].
    versions TEXT NOT NULL,
    -- The adapter that answered; null for the base model.
    adapter TEXT,
    temperature REAL,
    top_p REAL,
    top_k INTEGER,
    seed INTEGER,
    -- Whether it can be trained on: ids and log-probabilities are exactly what the policy sampled, in a main turn.
    exact INTEGER NOT NULL CHECK (exact IN (0, 1)),
    -- Why not.
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
    -- How its requests are identified.
    evidence TEXT NOT NULL,
    opened_ms INTEGER NOT NULL,
    closed_ms INTEGER,
    -- Why it was closed.
    why TEXT,
    -- Current or last epoch.
    epoch INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_of_user ON sessions (user, id);
CREATE INDEX sessions_open ON sessions (id) WHERE closed_ms IS NULL;

-- Closed epochs of sessions.
CREATE TABLE epochs (
    session INTEGER NOT NULL REFERENCES sessions (id),
    epoch INTEGER NOT NULL,
    -- First request of the next epoch.
    request INTEGER NOT NULL REFERENCES requests (number) DEFERRABLE INITIALLY DEFERRED,
    -- How its end was detected.
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
    -- The turn that it continues.
    parent INTEGER REFERENCES turns (id),
    -- The first turn with the same history.
    sibling INTEGER REFERENCES turns (id),
    kind TEXT NOT NULL CHECK (kind IN ('main', 'side', 'unknown')),
    mark TEXT,
    state TEXT NOT NULL CHECK (state IN ('waiting', 'answered', 'unanswered')),
    -- Whether the session ended without a next state for it.
    ended_without_next_state INTEGER NOT NULL DEFAULT 0 CHECK (ended_without_next_state IN (0, 1)),
    deleted_ms INTEGER,
    -- The user's first words in it; null in older ledgers, and if it continues from tool results only. Content.
    said TEXT CHECK (deleted_ms IS NULL OR said IS NULL)
) STRICT;
CREATE INDEX turns_of_session ON turns (session, id);

-- Inputs of linking: replayed in this order, they restore the open sessions.
CREATE TABLE happenings (
    -- Rising: rows are never deleted.
    place INTEGER PRIMARY KEY,
    session INTEGER NOT NULL REFERENCES sessions (id) DEFERRABLE INITIALLY DEFERRED,
    what TEXT NOT NULL CHECK (what IN ('arrived', 'answered', 'failed', 'close')),
    -- Null for a close.
    request INTEGER REFERENCES requests (number) DEFERRABLE INITIALLY DEFERRED,
    at_ms INTEGER NOT NULL
) STRICT;

CREATE TABLE next_states (
    turn INTEGER PRIMARY KEY REFERENCES turns (id),
    -- The continued request and choice.
    answered INTEGER NOT NULL REFERENCES requests (number),
    choice INTEGER NOT NULL,
    -- The request whose body contains it.
    request INTEGER NOT NULL REFERENCES requests (number) DEFERRABLE INITIALLY DEFERRED,
    -- How it was found.
    found_by TEXT NOT NULL,
    -- [[index in the request, kind, index of the call or null], ..].
    messages TEXT NOT NULL,
    -- [index in the request, ..] of messages that are not part of it.
    aside TEXT NOT NULL,
    calls_without_result INTEGER NOT NULL
) STRICT;
CREATE INDEX next_states_in ON next_states (request);

CREATE TABLE feedback (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    user TEXT NOT NULL REFERENCES users (id),
    session INTEGER NOT NULL REFERENCES sessions (id) DEFERRABLE INITIALLY DEFERRED,
    -- Null for a reaction before the first answer.
    turn INTEGER REFERENCES turns (id),
    -- The request that reported a reaction; null otherwise.
    request INTEGER REFERENCES requests (number) DEFERRABLE INITIALLY DEFERRED,
    source TEXT NOT NULL CHECK (source IN ('api', 'reaction', 'extension')),
    thumb INTEGER CHECK (thumb IN (-1, 0, 1)),
    -- After redaction. Content.
    text TEXT,
    -- In the giver's unit.
    score REAL,
    -- {channel, change, emoji, by, message, at} of a reaction. Content.
    reaction TEXT,
    at_ms INTEGER NOT NULL,
    deleted_ms INTEGER,
    -- The answer that it is about: request and choice. Null in older ledgers, and for reactions.
    answered INTEGER,
    choice INTEGER,
    CHECK (deleted_ms IS NULL OR coalesce(thumb, text, score, reaction) IS NULL)
) STRICT;
CREATE INDEX feedback_of_turn ON feedback (turn);
CREATE INDEX feedback_of_session ON feedback (session);

CREATE TABLE votes (
    turn INTEGER NOT NULL REFERENCES turns (id),
    judge TEXT NOT NULL,
    -- Index among the judge's votes on this turn, from 0.
    ballot INTEGER NOT NULL,
    score INTEGER CHECK (score IN (-1, 0, 1)),
    -- Why there is no score.
    reason TEXT,
    -- A hint: what the policy should have known. Content.
    hint TEXT,
    -- The judge's reply. Content.
    raw TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (turn, judge, ballot),
    CHECK ((score IS NULL) = (reason IS NOT NULL))
) STRICT;

CREATE TABLE rewards (
    turn INTEGER PRIMARY KEY REFERENCES turns (id),
    value REAL NOT NULL,
    -- Where it comes from.
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
    -- Time of its last change of state.
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
    -- Key of the trainer.
    key TEXT NOT NULL UNIQUE,
    adapter TEXT NOT NULL,
    objective TEXT NOT NULL,
    version_before INTEGER NOT NULL,
    -- The version that it made; null until it is accepted.
    version_after INTEGER,
    -- Lost: it was accepted, but training resumed from a checkpoint without it.
    state TEXT NOT NULL CHECK (state IN ('running', 'accepted', 'rejected', 'lost')),
    -- [why it was rejected, ..] as JSON.
    reasons TEXT NOT NULL,
    -- Metrics as a JSON object.
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
-- A sample is trained on at most once, and is in at most one update at a time.
CREATE UNIQUE INDEX trained_once ON update_samples (sample) WHERE outcome IN ('taken', 'trained');
CREATE INDEX updates_of_sample ON update_samples (sample);

CREATE TABLE versions (
    adapter TEXT NOT NULL,
    version INTEGER NOT NULL,
    -- The version that it was made from; null for the first.
    parent INTEGER,
    -- Number of rollbacks before it.
    branch INTEGER NOT NULL,
    accepted INTEGER NOT NULL CHECK (accepted IN (0, 1)),
    -- Path of its checkpoint, if it has one.
    checkpoint TEXT,
    at_ms INTEGER NOT NULL,
    PRIMARY KEY (adapter, version)
) STRICT, WITHOUT ROWID;
