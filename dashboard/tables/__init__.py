"""The table a page works on: uploads, samples, files of the server, generated ones."""
