-- Large files on their way are kept as they are: packing a table of 100 MB took the database 4 s, while a person waited.
ALTER TABLE travel_pieces ALTER COLUMN bytes SET STORAGE EXTERNAL;
