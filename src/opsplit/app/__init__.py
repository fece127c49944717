"""`opsplit app`: a page to play with, in the browser (extra `[app]`)."""
