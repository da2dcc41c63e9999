"""Everything that delbo raises on purpose.

    DelboError
    ├── ModelError              the model document, or something built from it, is wrong
    ├── DataError               observations or a data file are wrong
    │   ├── DimensionError      points or targets have another number of columns than the model
    │   ├── NotFiniteError      a number is NaN or infinite
    │   ├── TargetError         y is a value that the likelihood cannot produce
    │   ├── PointsError         points to predict at are wrong
    │   └── VerificationError   the verification document is wrong
    ├── TopologyError           a graph or its mixing weights cannot work
    ├── SettingError            an option, argument or document is out of its range
    ├── NumericalError          arithmetic left the numbers that a belief may have
    ├── WireError               bytes from another process are not the message that they should be
    ├── ConflictError           the request contradicts what the agent already holds
    │   ├── NoModelError        the agent has no model yet
    │   ├── ModelLoadedError    the agent holds another model
    │   ├── OlderRevisionError  a newer document is already in force
    │   ├── OlderEpochError     a newer neighbors document is already in force
    │   ├── RevisionTakenError  the number belongs to another document
    │   ├── MarkConflictError   the mark belongs to other observations
    │   ├── SequenceGapError    observations in between are missing
    │   ├── StreamEndedError    the client has ended its stream
    │   ├── SourceFixedError    observations were already taken from the other source
    │   ├── NotNewcomerError    the agent has evidence of its own, and cannot start from a neighbor's
    │   └── NotPausedError      single steps are for an agent that is paused
    ├── RoundUnknownError       the round is still to come
    ├── RoundGoneError          the round is no longer kept
    ├── BacklogFullError        the inbox is full; later there is room
    ├── BatchTooLargeError      more observations at once than the inbox ever holds
    ├── TooManyClientsError     no room for the marks of yet another client
    ├── TooManyPointsError      more points at once than one request may have
    ├── NoMapError              a map of a model that has none, or none of this kind
    ├── BusyError               so many questions wait that another has no room; later it has
    ├── PeerError               another agent, whose answer is needed now, cannot give it
    ├── StoppingError           the agent is shutting down
    ├── AgentRefusedError       an agent answered a client that it cannot do what was asked
    ├── AgentUnreachableError   an agent did not answer a client, however often it was asked
    └── StorageError            the disk is full or broken, or the data directory cannot be used

A message is one sentence for someone who has not read the paper: what is wrong, where, and what would be right.
"""


class DelboError(Exception):
    """Base of all errors that delbo raises on purpose."""


class ModelError(DelboError):
    """The model document, or something built from it, is wrong."""


class DataError(DelboError):
    """Observations or a data file are wrong."""


class DimensionError(DataError):
    """Points or targets have another number of columns than the model."""


class NotFiniteError(DataError):
    """A number is NaN or infinite."""


class TargetError(DataError):
    """A target y has a value that the likelihood cannot produce."""


class PointsError(DataError):
    """The points to predict at are wrong."""


class VerificationError(DataError):
    """The verification document is wrong."""


class TopologyError(DelboError):
    """A graph or its mixing weights cannot work."""


class SettingError(DelboError):
    """An option, argument or document is out of its range."""


class NumericalError(DelboError):
    """Arithmetic left the numbers that a belief may have."""


class WireError(DelboError):
    """Bytes from another process are not the message that they should be; `reason` is one stable word for counting."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class ConflictError(DelboError):
    """The request contradicts what the agent already holds."""


class NoModelError(ConflictError):
    """The agent has no model yet."""


class ModelLoadedError(ConflictError):
    """The agent holds another model."""


class OlderRevisionError(ConflictError):
    """A newer document is already in force."""


class OlderEpochError(ConflictError):
    """A newer neighbors document is already in force."""


class RevisionTakenError(ConflictError):
    """The document's number belongs to another document."""


class MarkConflictError(ConflictError):
    """The mark belongs to other observations."""


class SequenceGapError(ConflictError):
    """Observations in between are missing; `expected` is the sequence number to go on with."""

    def __init__(self, message: str, expected: int) -> None:
        super().__init__(message)
        self.expected = expected


class StreamEndedError(ConflictError):
    """The client has ended its stream."""


class SourceFixedError(ConflictError):
    """Observations were already taken from the other source."""


class NotNewcomerError(ConflictError):
    """The agent has evidence of its own, and cannot start from a neighbor's."""


class NotPausedError(ConflictError):
    """Single steps are for an agent that is paused."""


class RoundUnknownError(DelboError):
    """The round is still to come."""


class RoundGoneError(DelboError):
    """The round is no longer kept."""


class BacklogFullError(DelboError):
    """The inbox is full; later there is room."""


class BatchTooLargeError(DelboError):
    """More observations at once than the inbox ever holds."""


class TooManyClientsError(DelboError):
    """There is no room for the marks of yet another client."""


class TooManyPointsError(DelboError):
    """More points at once than one request may have."""


class NoMapError(DelboError):
    """A map was asked for of a model that has none, or none of this kind."""


class BusyError(DelboError):
    """So many questions wait already that another has no room; later it has."""


class PeerError(DelboError):
    """Another agent, whose answer is needed now, cannot give it."""


class StoppingError(DelboError):
    """The agent is shutting down."""


class AgentRefusedError(DelboError):
    """An agent answered a client that it cannot do what was asked; `slug` is the problem's short name, if it has one.

    expected: the sequence number to go on with, where that is the problem; retry_after_s: when to try again.
    """

    def __init__(
        self,
        message: str,
        status: int,
        slug: str | None = None,
        expected: int | None = None,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.slug = status, slug
        self.expected, self.retry_after_s = expected, retry_after_s


class AgentUnreachableError(DelboError):
    """An agent did not answer a client, however often it was asked; `is_nobody`: not even the connection was taken."""

    def __init__(self, message: str, is_nobody: bool = False) -> None:
        super().__init__(message)
        self.is_nobody = is_nobody


class StorageError(DelboError):
    """The disk is full or broken, or the data directory cannot be used."""
