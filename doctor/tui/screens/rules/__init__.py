"""The pages of the rules room: browse and read, try, write, and what can be judged at present."""
