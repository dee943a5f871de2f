"""Where raw answers come from: this machine, a recording, texts at hand."""
