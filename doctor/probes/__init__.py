"""One module per subject: what to read, how long it may take, how to parse it."""
