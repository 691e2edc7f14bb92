-- The records of runs: what a file metrics.sqlite holds for one run. Rows hang on the number of their run and go with it.
-- Series are numbered by place: 0, 1, 2, ... without gaps, so that evenly spread records are found by their key.
ALTER TABLE runs ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY UNIQUE;
ALTER TABLE runs ADD COLUMN last_batch text; -- of records: one that is sent again, because nobody knew, is not kept twice

CREATE TABLE rounds (
    of bigint NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    place bigint NOT NULL,
    round bigint NOT NULL,
    epoch double precision NOT NULL,
    phase text NOT NULL,
    seconds double precision NOT NULL,
    loss double precision NOT NULL,
    validation double precision,
    distance double precision,
    gradient_norm double precision NOT NULL,
    learning_rate double precision NOT NULL,
    alpha double precision NOT NULL,
    nonzeros bigint NOT NULL,
    rows_per_second double precision NOT NULL,
    bytes_raw bigint NOT NULL,
    bytes_sent bigint NOT NULL,
    read double precision NOT NULL,
    compute double precision NOT NULL,
    wait double precision NOT NULL,
    apply double precision NOT NULL,
    staleness double precision NOT NULL,
    workers bigint NOT NULL,
    PRIMARY KEY (of, place)
);
CREATE UNIQUE INDEX rounds_by_round ON rounds (of, round);

-- A bucket of level k stands for 4^k rounds and says where among them the loss is lowest and highest.
CREATE TABLE buckets (
    of bigint NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    level integer NOT NULL,
    number bigint NOT NULL,
    low bigint NOT NULL,
    low_loss double precision NOT NULL,
    high bigint NOT NULL,
    high_loss double precision NOT NULL,
    PRIMARY KEY (of, level, number)
);

CREATE TABLE worker_samples (
    of bigint NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    rank bigint NOT NULL,
    place bigint NOT NULL,
    seconds double precision NOT NULL,
    pid bigint NOT NULL,
    state text NOT NULL,
    cpu double precision NOT NULL,
    memory bigint NOT NULL,
    rows bigint NOT NULL,
    staleness double precision NOT NULL,
    wait double precision NOT NULL,
    gpu double precision,
    PRIMARY KEY (of, rank, place)
);

CREATE TABLE host_samples (
    of bigint NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    place bigint NOT NULL,
    seconds double precision NOT NULL,
    cpu double precision NOT NULL,
    memory_used bigint NOT NULL,
    memory_total bigint NOT NULL,
    disk_read double precision NOT NULL,
    disk_write double precision NOT NULL,
    net_in double precision NOT NULL,
    net_out double precision NOT NULL,
    PRIMARY KEY (of, place)
);

CREATE TABLE links (
    of bigint NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    rank bigint NOT NULL,
    seconds double precision NOT NULL,
    node text NOT NULL,
    took double precision NOT NULL,
    silent double precision NOT NULL,
    received bigint NOT NULL,
    sent bigint NOT NULL,
    PRIMARY KEY (of, rank)
);

CREATE TABLE events (
    of bigint NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    number bigint NOT NULL,
    seconds double precision NOT NULL,
    kind text NOT NULL,
    round bigint NOT NULL,
    text text NOT NULL,
    rank bigint,
    data text NOT NULL, -- JSON; not jsonb, which knows no NaN
    PRIMARY KEY (of, number)
);

CREATE TABLE commands (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    of bigint NOT NULL REFERENCES runs (number) ON DELETE CASCADE,
    key uuid NOT NULL UNIQUE, -- one that is posted again, because nobody knew, is not there twice
    name text NOT NULL,
    arguments text NOT NULL,
    posted_at double precision NOT NULL,
    taken uuid, -- by which look
    round bigint,
    outcome text
);
CREATE INDEX commands_of ON commands (of, id);
