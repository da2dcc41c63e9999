"""What one agent process is told at its start: options of the command line, else environment variables."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field
from pydantic_settings import BaseSettings, SettingsConfigDict

from service.wire.configuration import check_name


class Settings(BaseSettings):
    """Read once, in `__main__`, and passed down. DELBO_NAME, DELBO_PORT and so on are the environment variables."""

    model_config = SettingsConfigDict(env_prefix="DELBO_", frozen=True, extra="ignore", env_ignore_empty=True)

    name: Annotated[str, AfterValidator(check_name), Field(description="The agent's name, unique in its network.")]
    data_dir: Annotated[Path, Field(description="Where it keeps its file; one directory per agent.")]
    host: Annotated[str, Field(description="The address to listen on.")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="The port to listen on; 0 takes a free one.")] = 8001
    tokens: Annotated[
        Path | None, Field(description="A folder of tokens, as `delbo tokens` makes it; who has none is not let in.")
    ] = None
    insecure: Annotated[bool, Field(description="Let other machines in without tokens.")] = False
    log_format: Annotated[Literal["text", "json"], Field(description="How log lines look.")] = "text"
    log_level: Annotated[Literal["debug", "info", "warning", "error"], Field(description="What is logged.")] = "info"
    inbox_limit: Annotated[
        int, Field(ge=1, description="Observations that may wait to be applied, or places in the replay buffer.")
    ] = 1_000_000
    history_limit: Annotated[int, Field(ge=1, description="Rounds whose summaries are kept.")] = 10_000
    body_limit: Annotated[int, Field(ge=1024, description="Bytes that a body may have; lines may go on.")] = 8 * 2**20
