"""What an agent tells about itself: `/v1/status`, `/v1/belief`, and what it was told last."""

from service.agent.agent import Agent
from service.agent.neighbors import describe
from service.agent.publication import Snapshot
from service.wire.answers import BeliefSummary, ObservationCounts, RecentObservations, Status, VerificationStatus


def status(agent: Agent) -> Status:
    """Everything that an operator wants to know at a glance."""
    configuration, counters = agent.configuration, agent.store.counters
    schedule, shown = configuration.schedule, agent.publication.current
    _, incarnation = agent.store.identity
    now = agent.clock()
    return Status(
        agent=agent.name,
        incarnation=incarnation,
        model_id=None if configuration.model is None else configuration.model.model_id,
        epoch=configuration.neighbors.epoch if shown is None else shown.kept.epoch,
        round=None if shown is None else shown.kept.round,
        rounds_in_all=counters.rounds,
        phase=agent.rounds.phase,
        waits_for=tuple(agent.rounds.waits_for()),
        faults=agent.faults(),
        observations=ObservationCounts(
            collected=counters.collected,
            applied=counters.applied,
            backlog=backlog(agent),
            uncovered=counters.uncovered,
            ended=configuration.inbox is not None and configuration.inbox.log.ended,
            open_streams=() if configuration.inbox is None else configuration.inbox.log.streams.open,
        ),
        neighbors=tuple(describe(link, now, schedule.stale_after_s) for link in agent.neighbors.links),
        own_weight=configuration.neighbors.own_weight,
        schedule=schedule.model_dump(),
    )


def backlog(agent: Agent) -> int:
    """Observations that wait to be applied; with replay none does."""
    counters, replay = agent.store.counters, agent.configuration.schedule.source == "replay"
    return 0 if replay else counters.collected - counters.applied


def verification_status(agent: Agent) -> VerificationStatus:
    """The verification document in force, without its points, and the newest scores."""
    verification, last = agent.configuration.verification, agent.rounds.verified
    if verification is None:
        return VerificationStatus(0, 0, 0)
    document = verification.document
    head = (document.revision, document.every_rounds, len(document))
    return VerificationStatus(*head, *((None, None, None) if last is None else (last.epoch, last.round, last.scores)))


def belief_summary(snapshot: Snapshot, full: bool = False) -> BeliefSummary:
    """A belief in a few figures, or in full; for a full model it takes a while."""
    belief, prior = snapshot.belief, snapshot.model.prior
    return BeliefSummary(
        epoch=snapshot.kept.epoch,
        round=snapshot.kept.round,
        model_id=snapshot.model.model_id,
        family=snapshot.model.document.spec.family,
        parameters=belief.dimension,
        entropy=belief.entropy,
        information_gain=prior.entropy - belief.entropy,
        largest_variance=float(belief.variance.max()),
        smallest_variance=float(belief.variance.min()),
        mean=belief.mean if full else None,
        variance=belief.variance if full else None,
    )


def recent_observations(agent: Agent, limit: int) -> RecentObservations:
    """The newest observations, and where the one who made them stood."""
    recent = agent.recent
    x, y = recent.newest(limit, agent.reader.nothing)
    position = None if recent.position is None else list(recent.position)
    return RecentObservations(recent.collected, x, y, position, recent.position_age_s)
