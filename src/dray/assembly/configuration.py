"""The scheduler's configuration, read from a file. Left out: what it means (`dray.core.configuration`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dray.files import YamlError, read_regular, yaml_document

if TYPE_CHECKING:
    from dray.core.configuration import Configuration


def read_configuration(path: Path | None) -> Configuration:
    """The configuration in a file, or the default. Raises ConfigurationError and OSError."""
    from dray.core.configuration import Configuration, ConfigurationError, read

    if path is None:
        return Configuration()
    try:
        return read(yaml_document(read_regular(path)))
    except YamlError as error:
        raise ConfigurationError(str(error)) from error
