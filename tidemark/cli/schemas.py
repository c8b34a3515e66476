"""`python -m tidemark.cli.schemas`: writes the JSON Schemas of both files, which editors complete and check by."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidemark.cli.key_words import CONTRACT, PLATFORM
from tidemark.domain.config.assembly import REQUIRED
from tidemark.domain.config.catalog import PLAIN_KEYS
from tidemark.domain.config.contract import Declaration
from tidemark.domain.config.kafka_properties import KNOWN
from tidemark.domain.config.platform import CONNECTIONS, Platform
from tidemark.domain.config.platform_rules import CATALOG_KEYS

FOLDER = Path("docs")
DIALECT = "https://json-schema.org/draft/2020-12/schema"


def schemas() -> dict[str, str]:
    """File name -> its text."""
    contract = _described(_tidy(Declaration.model_json_schema()), CONTRACT)
    platform = _described(_tidy(Platform.model_json_schema()), PLATFORM)
    about = platform["properties"]["defaults"]["description"]
    platform["properties"]["defaults"] = {"$ref": "contract.schema.json", "description": about}
    platform["$defs"]["KafkaCluster"]["propertyNames"] = {"enum": sorted(KNOWN)}
    platform["$defs"]["Catalog"]["propertyNames"] = {
        "anyOf": [{"enum": sorted(CATALOG_KEYS | PLAIN_KEYS)}, {"pattern": "[.-]"}]
    }
    platform["dependentRequired"] = {block: list(REQUIRED) for block in CONNECTIONS}
    del platform["required"]
    return {
        "contract.schema.json": _text("Tidemark contract", contract),
        "platform.schema.json": _text("Tidemark platform file", platform),
    }


def _tidy(node: Any) -> Any:
    """Without pydantic's titles, which only repeat the keys."""
    if isinstance(node, dict):
        return {key: _tidy(item) for key, item in node.items() if key != "title" or isinstance(item, dict)}
    return [_tidy(item) for item in node] if isinstance(node, list) else node


def _described(schema: dict[str, Any], words: Mapping[str, str]) -> dict[str, Any]:
    """With a line for each key. Raises KeyError naming the key that has none."""
    for section, node in (("", schema), *schema["$defs"].items()):
        shape = node["anyOf"][0] if "anyOf" in node else node
        for key, item in shape.get("properties", {}).items():
            item["description"] = words[f"{section}.{key}" if section else key]
    return schema


def _text(title: str, schema: dict[str, Any]) -> str:
    content = {"$schema": DIALECT, **schema, "title": title}
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def write(folder: Path) -> None:
    """Write both into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in schemas().items():
        (folder / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
