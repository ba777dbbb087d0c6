"""Read the scheduler's configuration from a file. `dray.core.configuration` interprets it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dray.files import YamlError, read_regular, yaml_document

if TYPE_CHECKING:
    from dray.core.configuration import Configuration


def read_configuration(path: Path | None) -> Configuration:
    """Return the configuration in a file, or the default without a file.

    `path` is None without a file. Raises ConfigurationError if the content is invalid, OSError if the file cannot be
    read.
    """
    from dray.core.configuration import Configuration, ConfigurationError, read

    if path is None:
        return Configuration()
    try:
        return read(yaml_document(read_regular(path)))
    except YamlError as error:
        raise ConfigurationError(str(error)) from error
