"""The commands of `delbo`, by what they are about."""
