"""The paper as pure functions on arrays: values in, values out; no I/O, no clock, no logging, no settings."""
