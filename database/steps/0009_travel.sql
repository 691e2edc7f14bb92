-- What travels with runs between homes: documents of their folders, the newest checkpoint, tables that people sent.
CREATE TABLE travel_runs (
    run text PRIMARY KEY,
    origin text NOT NULL, -- the home in which it was launched, where people look at it
    home text NOT NULL -- the home whose files of it count: the one that took it last
);

-- Large files by what is in them, cut up so that neither side has to hold all of one; a table is here once for all runs.
CREATE TABLE travel_contents (sha256 text PRIMARY KEY, size bigint NOT NULL);

CREATE TABLE travel_pieces (
    sha256 text NOT NULL REFERENCES travel_contents (sha256) ON DELETE CASCADE,
    place integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (sha256, place)
);

CREATE TABLE travel_files (
    run text NOT NULL REFERENCES travel_runs (run) ON DELETE CASCADE,
    file text NOT NULL, -- below the folder of the run, or uploads/FOLDER/NAME below the home
    sha256 text NOT NULL,
    size bigint NOT NULL,
    small bytea, -- all of a small one
    large text REFERENCES travel_contents (sha256),
    PRIMARY KEY (run, file),
    CHECK ((small IS NULL) <> (large IS NULL))
);
CREATE INDEX travel_runs_origin ON travel_runs (origin) WHERE home <> origin;
CREATE INDEX travel_files_large ON travel_files (large) WHERE large IS NOT NULL;
