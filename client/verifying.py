"""Giving agents the points on which they score themselves."""

import numpy as np

from client.agent_client import AgentClient
from client.network.plan import NetworkPlan
from service.errors import AgentRefusedError
from service.wire.verification import VerificationDocument

_MOST_POINTS = 2000  # scoring them takes a round a millisecond or so
_TAKEN = "revision-taken"


def verification_of(plan: NetworkPlan, revision: int) -> VerificationDocument | None:
    """What the network's agents are to score themselves on; None if they are not to. Of many points, evenly some."""
    wanted = plan.document.verification
    if wanted is None or wanted.every_rounds is None or plan.test is None:
        return None
    count = min(len(plan.test), _MOST_POINTS)
    rows = np.linspace(0, len(plan.test) - 1, count).round().astype(np.int64)
    return VerificationDocument(revision, wanted.every_rounds, plan.test.x[rows], plan.test.y[rows])


async def put_verification(plan: NetworkPlan, agent: AgentClient) -> None:
    """Put the document where it is not in force yet."""
    if verification_of(plan, 1) is None:
        return
    revision = max((await agent.verification()).revision, 1)
    while (document := verification_of(plan, revision)) is not None:
        try:
            await agent.put_verification(document)
            return
        except AgentRefusedError as refused:
            if refused.slug != _TAKEN:
                raise
        revision += 1  # the number is in force with other points, or another period
