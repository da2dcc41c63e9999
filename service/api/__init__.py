"""HTTP: routes, limits and problem responses; no mathematics."""
