"""The metadata that only a release knows: where its repository is, in the URLs and in the links of the README."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_LINK = re.compile(r'(\]\(|\b(?:src|srcset)=")(?![a-z]+:|#)')


class Release(MetadataHookInterface):
    """Takes the repository from the variables of GitHub Actions. A build elsewhere has no URLs, and the README as it
    is."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Add the URLs and the README."""
        text, repository = (
            (Path(self.root) / "README.md").read_text(encoding="utf-8"),
            os.environ.get("GITHUB_REPOSITORY"),
        )
        metadata["urls"] = dict[str, str]()
        if repository:
            home, tag = f"{os.environ.get('GITHUB_SERVER_URL', '')}/{repository}", f"v{metadata['version']}"
            pages = f"{home}/blob/{tag}/"
            metadata["urls"] = {
                "Repository": home,
                "Documentation": f"{pages}docs/index.md",
                "Changelog": f"{pages}CHANGELOG.md",
                "Issues": f"{home}/issues",
            }
            # PyPI shows the text alone: images need their content, links the page that shows them.
            text = _LINK.sub(lambda found: found[1] + (pages if found[1] == "](" else f"{home}/raw/{tag}/"), text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
