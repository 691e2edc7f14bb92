-- Accounts and the log of who did what: what a file people.sqlite holds for one home. Nobody is ever taken out of `people`:
-- names are given once. The log only grows; the seal of an entry covers the one before it.
CREATE TABLE people (
    name text PRIMARY KEY,
    role text NOT NULL,
    password text NOT NULL, -- its hash
    state text NOT NULL,
    private boolean NOT NULL,
    created double precision NOT NULL,
    seen double precision NOT NULL,
    checksum text NOT NULL
);

CREATE TABLE audit (
    id bigint PRIMARY KEY, -- 1, 2, 3, ... without gaps
    at double precision NOT NULL,
    who text NOT NULL,
    deed text NOT NULL,
    thing text NOT NULL,
    origin text NOT NULL,
    seal text NOT NULL
);

CREATE FUNCTION refuse_change_of_audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the log only grows';
END
$$;
CREATE TRIGGER audit_only_grows BEFORE UPDATE OR DELETE OR TRUNCATE ON audit
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change_of_audit();
