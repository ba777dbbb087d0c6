"""Names of images: `[registry/]repository[:tag][@digest]`, with the usual defaults. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

DEFAULT_REGISTRY = "docker.io"
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_NAME = re.compile(
    rf"(?P<name>(?:(?P<registry>[A-Za-z0-9.-]+(?::[0-9]+)?|\[[0-9A-Fa-f:]+\](?::[0-9]+)?)/)?(?P<path>{_PART}(?:/{_PART})*))"
    r"(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128}))?",
    re.ASCII,
)
_LONGEST = 255


class InvalidImageName(ValueError):
    """The text is not a valid image name. The message is the one that Kubernetes gives."""


@dataclass(frozen=True)
class ImageName:
    """Location of an image: a registry, a repository in the registry, and a tag, a digest or both."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> ImageName:
        match = _NAME.fullmatch(text)
        if match is None or len(match["name"]) > _LONGEST:
            raise InvalidImageName(f'couldn\'t parse image name "{text}": invalid reference format')
        registry, path = match["registry"] or "", match["path"]
        if registry and not ("." in registry or ":" in registry or registry == "localhost"):
            registry, path = "", f"{registry}/{path}"
        registry = "docker.io" if registry in ("", "index.docker.io") else registry
        if registry == DEFAULT_REGISTRY and "/" not in path:
            path = f"library/{path}"
        tag = match["tag"] or ("" if match["digest"] else "latest")
        return cls(registry, path, tag, match["digest"] or "")

    @property
    def full(self) -> str:
        """The complete name, with defaults for all parts that were left out.

        The form is `registry/repository:tag`, followed by the digest if the name has one.
        """
        return f"{self.registry}/{self.repository}" + (f":{self.tag}" if self.tag else "") + self._at

    @property
    def _at(self) -> str:
        return f"@{self.digest}" if self.digest else ""

    def pinned(self, digest: str) -> str:
        """Return the name of the repository with this digest instead of a tag.

        The form is `registry/repository@digest`.
        """
        return f"{self.registry}/{self.repository}@{digest}"
