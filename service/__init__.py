"""One agent: its mathematics (inference), its contract with others (wire), its life (agent), and its HTTP (api)."""
