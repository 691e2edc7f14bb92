-- Saved models: what SHOAL_HOME/models holds for one home. Documents are sealed JSON, which proves itself when it is read.
-- A name is never taken out, so that its numbers are given once.
CREATE TABLE models (
    name text PRIMARY KEY,
    last integer NOT NULL DEFAULT 0, -- the highest number that was ever given
    owner text -- whose it is
);

CREATE TABLE model_versions (
    model text NOT NULL REFERENCES models (name),
    number integer NOT NULL,
    saved_at double precision NOT NULL, -- seconds since 1970 by the clock of this database
    mark text NOT NULL, -- the checksum that the model file names
    size bigint NOT NULL,
    sha256 text NOT NULL, -- of the model file
    contents uuid NOT NULL UNIQUE,
    PRIMARY KEY (model, number)
);

-- The model file, cut up so that neither side has to hold all of it. It comes before its number is given.
CREATE TABLE model_pieces (
    contents uuid NOT NULL REFERENCES model_versions (contents) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED,
    place integer NOT NULL,
    bytes bytea NOT NULL,
    PRIMARY KEY (contents, place)
);

CREATE TABLE model_documents (
    model text NOT NULL REFERENCES models (name),
    number integer NOT NULL, -- of the version; 0 for those of the model
    file text NOT NULL,
    contents text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (model, number, file)
);
