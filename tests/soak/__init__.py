"""What takes long and is heavy: `make test-dashboard` runs it."""
