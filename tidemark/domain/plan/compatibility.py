"""Whether a subject's compatibility mode in the registry lets through what the contract would hold up.

Source of what each mode allows: Confluent's documentation, "Schema Evolution and Compatibility". A registry that is
stricter than the contract is no disagreement: such changes never come.
"""

from collections.abc import Mapping

from tidemark.domain.config.contract import SchemaChanges

_ALLOWS: Mapping[str, tuple[str, ...]] = {
    "NONE": ("add_column", "widen_type", "remove_column", "incompatible"),
    "BACKWARD": ("add_column", "widen_type", "remove_column"),
    "FORWARD": ("add_column", "remove_column"),
    "FULL": ("add_column", "remove_column"),
}
_DOES = {"review": "waits for an approval", "quarantine": "goes to the quarantine"}


def disagreements(mode: str | None, policy: SchemaChanges) -> list[str]:
    """One sentence per kind of change that a producer may register and the table would not follow."""
    name = (mode or "NONE").removesuffix("_TRANSITIVE")
    allowed = _ALLOWS.get(name)
    if allowed is None:
        return [f"the registry's compatibility mode {mode} is unknown to Tidemark"]
    says = f"the registry ({mode or 'no compatibility mode'}) lets producers register"
    found = []
    for kind in allowed:
        verdict = getattr(policy, kind)
        if verdict != "apply":
            words = _WORDS[kind]
            found.append(f"{says} {words}, and what is written with it {_DOES[verdict]} ({kind}: {verdict})")
    return found


_WORDS: Mapping[str, str] = {
    "add_column": "new fields",
    "widen_type": "wider types",
    "remove_column": "schemas without a field",
    "incompatible": "incompatible schemas",
}
