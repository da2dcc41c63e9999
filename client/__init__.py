"""Whoever drives agents: topologies, mixing weights, streams, simulation, the `delbo` command."""
