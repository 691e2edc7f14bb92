-- In which home the files of a job are, and which one a host sees: a host takes those of its own, and those that do not say.
ALTER TABLE queue_jobs ADD COLUMN home text NOT NULL DEFAULT '';
ALTER TABLE queue_hosts ADD COLUMN home text NOT NULL DEFAULT '';
