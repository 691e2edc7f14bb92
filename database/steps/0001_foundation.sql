-- What every other table hangs on. A run is known here from when it first writes; its fence only grows: whoever holds an
-- older one than is written here may not write any more.
CREATE TABLE identity (id uuid NOT NULL DEFAULT gen_random_uuid());
INSERT INTO identity DEFAULT VALUES;

CREATE TABLE runs (
    run text PRIMARY KEY,
    fence bigint NOT NULL DEFAULT 0
);
