-- What people note of runs: tags, a note, a name. `changed` grows in the order in which changes are seen.
CREATE TABLE run_notes (
    run text PRIMARY KEY,
    contents text, -- sealed JSON; none where a note was removed
    changed bigserial NOT NULL UNIQUE
);
