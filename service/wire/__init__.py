"""The contract between processes: the model document and its hash."""
