"""Rules: messages about what the environment holds are in the file's words; a number may come from it."""

import pytest

from .conftest import PLATFORM, Installation


@pytest.mark.parametrize(
    ("text", "value", "message"),
    [
        ("lane: ${V}", "a", "the platform file has no lane '${V}'"),
        ("target_lag: ${V}", "a", "'${V}' is not a duration like 5s, 1m, 2h, 7d or 500ms"),
        ("upsert: ['${V}', '${V}']", "id", "${V} stands there twice"),
        ("value: {format: json, fields: {id: int}}\nsort_by: ['${V}']", "he", "there is no column ${V}"),
    ],
)
def test_a_message_names_the_reference_and_is_otherwise_as_it_was(
    installation: Installation, text: str, value: str, message: str
) -> None:
    """Given a value that is also a part of other words, then only itself is told by its reference."""
    installation.platform(PLATFORM).contract(f"topic: orders\n{text}")
    assert installation.problem(V=value).message == message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("target_lag: ${V}", "5 minutes"),
        ("lane: ${V}", "defalt"),
        ("upsert: ${V}", "order_id"),
        ("value: {format: json, fields: {geheim: int}}\nupsert: ['${V}']", "geheem"),
    ],
)
def test_what_was_meant_is_not_said_where_it_would_tell_the_value(
    installation: Installation, text: str, value: str
) -> None:
    """Given a mistake in a value of the environment, then nothing shows it, in the short form of upsert neither."""
    installation.platform(PLATFORM).contract(f"topic: orders\n{text}")
    problem = installation.problem(V=value)
    assert problem.suggestion is None
    assert value not in problem.message
    assert "${V}" in problem.message or "must be a mapping" in problem.message


def test_a_number_may_come_from_the_environment(installation: Installation) -> None:
    """Given references where a number stands, then the text of the environment is that number."""
    contract = installation.contract("""\
        topic: orders
        format_version: ${V}
        upsert: {keys: [id], format_version: "${V}"}
        ingest: {max_records: "${N}"}
        quarantine: {warn: "${SHARE}"}
        quality:
          - {check: length, column: a, min: "${V}", max: "${N}"}
          - {check: min_rows, min: "${V}"}
          - {check: in_range, column: b, min: "${V}"}
        """).only(V="3", N="10", SHARE="0.01")
    assert contract.upsert is not None
    assert (contract.format_version, contract.upsert.format_version, contract.ingest.max_records) == (
        3,
        3,
        10,
    )
    assert [(rule.min, rule.max) for rule in contract.quality] == [(3, 10), (3, None), ("3", None)]
    installation.contract("topic: orders\nformat_version: ${V}")
    assert installation.problem(V="4").message == "${V} is none of 2, 3"
