"""The contract between processes: the model and its hash, messages, documents, and their checks."""
