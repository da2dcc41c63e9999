"""A whole network in one document: `network.yaml`, and what follows from it for each agent."""
