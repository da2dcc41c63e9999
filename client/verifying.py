"""Giving agents the points on which they score themselves."""

import numpy as np

from client.agent_client import AgentClient
from client.network.plan import NetworkPlan
from service.errors import AgentRefusedError, DataError
from service.wire.verification import VerificationDocument

_MOST_POINTS = 2000  # scoring them takes a round a millisecond or so
_TAKEN = "revision-taken"


def verification_of(plan: NetworkPlan, agent: int, revision: int) -> VerificationDocument | None:
    """What that agent is to score itself on; of many points, evenly some. None: nothing, as the network says.

    An agent whose own sensor cannot see such targets has nothing to score itself on either.
    """
    wanted, test = plan.document.verification, plan.test
    if wanted is None or wanted.every_rounds is None or test is None:
        return None
    try:
        plan.likelihood_of(agent).check_targets(test.y)
    except DataError:
        return None
    rows = np.linspace(0, len(test) - 1, min(len(test), _MOST_POINTS)).round().astype(np.int64)
    return VerificationDocument(revision, wanted.every_rounds, test.x[rows], test.y[rows])


async def put_verification(plan: NetworkPlan, index: int, agent: AgentClient) -> None:
    """Put the document where it is not in force yet, and end verification where the network says nothing of it."""
    told = await agent.verification()
    revision = max(told.revision, 1)
    if verification_of(plan, index, revision) is None:
        if told.points:
            await agent.put_verification(VerificationDocument(revision + 1, 1, np.empty((0, 1)), np.empty(0)))
        return
    while (document := verification_of(plan, index, revision)) is not None:
        try:
            await agent.put_verification(document)
            return
        except AgentRefusedError as refused:
            if refused.slug != _TAKEN:
                raise
        revision += 1  # the number is in force with other points, or another period
