-- The queue of the team: jobs, what they wait for, limits of people, hosts, and the ledger of what happened to each job.
-- Times are seconds since 1970 by the clock of this database. A released step is never edited, only followed by another.
CREATE TABLE queue_jobs (
    id text PRIMARY KEY,
    number bigserial NOT NULL,
    owner text NOT NULL,
    priority integer NOT NULL,
    need integer NOT NULL,
    allowed integer NOT NULL,
    state text NOT NULL,
    fence bigint NOT NULL,
    tries integer NOT NULL,
    put_at double precision NOT NULL,
    ready_at double precision NOT NULL,
    taken_at double precision NOT NULL,
    lease_until double precision NOT NULL,
    ended_at double precision NOT NULL,
    host text NOT NULL,
    words text NOT NULL,
    stopping boolean NOT NULL
);
CREATE INDEX queue_jobs_waiting ON queue_jobs (priority DESC, number) WHERE state = 'waiting';
CREATE INDEX queue_jobs_running ON queue_jobs (owner) WHERE state = 'running';

CREATE TABLE queue_after (
    job text NOT NULL,
    place integer NOT NULL,
    other text NOT NULL,
    PRIMARY KEY (job, place)
);
CREATE INDEX queue_after_other ON queue_after (other);

CREATE TABLE queue_limits (owner text PRIMARY KEY, most integer NOT NULL);

CREATE TABLE queue_hosts (
    name text PRIMARY KEY,
    slots integer NOT NULL,
    mark text NOT NULL,
    since double precision NOT NULL,
    seen double precision NOT NULL,
    draining boolean NOT NULL
);

CREATE TABLE queue_ledger (
    number bigserial PRIMARY KEY,
    at double precision NOT NULL,
    job text NOT NULL,
    fence bigint NOT NULL,
    host text NOT NULL,
    event text NOT NULL,
    words text NOT NULL
);
CREATE INDEX queue_ledger_job ON queue_ledger (job);
