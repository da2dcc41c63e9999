"""One agent's life: what it stores, pulls, mixes and shows. asyncio, and no HTTP server."""
