"""Post observations to an agent, each stored exactly once, however often this is run or broken off.

    python examples/post_observations.py http://127.0.0.1:8001 [points.csv [client]]

The csv has a line of names, then x1,x2,...,y in every line. Without one a few points are made up. A client is whoever
sends these points: for others take another name. Where the agent asks for tokens, DELBO_TOKENS names a folder with the
file ingest.
"""

import os
import sys
from pathlib import Path

import numpy as np

from client.agent_client import Mark
from client.blocking import BlockingAgentClient
from client.tokens import TokenFolder
from service.errors import DelboError

BATCH = 10

url, path, client = (*sys.argv[1:4], None, None, None)[:3]
client = client or "example-python"
if not path:
    x = np.array([[column, row] for row in range(5) for column in range(6)])
    y = x[:, 0] > x[:, 1]
else:
    table = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    x, y = table[:, :-1], table[:, -1]

folder = os.environ.get("DELBO_TOKENS")
try:
    tokens = TokenFolder(Path(folder)) if folder else None
    with BlockingAgentClient(url, tokens=tokens) as agent:  # it waits where there is no room, and for a restart
        begins = range(0, len(x), BATCH)
        for sequence, begin in enumerate(begins):
            rows = slice(begin, begin + BATCH)
            print(agent.post(x[rows], y[rows], Mark(client, sequence)))  # the same mark again is stored once
        agent.end(Mark(client, len(begins)))
        print(f"{len(x)} observations of {client} are stored")
except DelboError as fault:
    sys.exit(f"post_observations: {fault}")
