"""One agent: the mathematics (inference) and the contract between processes (wire)."""
