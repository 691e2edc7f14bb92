-- Who somebody is to the team's OpenID provider: its issuer and their subject there, mailto:ADDRESS until they first come, or empty.
ALTER TABLE people ADD COLUMN subject text NOT NULL DEFAULT '';
