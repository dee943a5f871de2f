"""Changes to files: exact spans, a patch, its verification, its application, and the way back."""
