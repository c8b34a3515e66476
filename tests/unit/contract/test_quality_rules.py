"""Rules of `quality` as a contract says them: every mistake by line and key, every rule with a name for ever."""

import json
from decimal import Decimal

import pytest

from tidemark.domain.config.quality import QualityRule

MISTAKES = [
    ("{column: a}", "check", "either `check` or `sql`"),
    ("{check: not_null, column: a, sql: 'a > 1'}", "check", "either `check` or `sql`"),
    ("{check: not_nul, column: a}", "check", "is none of not_null, in_range"),
    ("{check: accepted_values, column: a}", "check", "is none of not_null, in_range"),
    ("{check: [not_null], column: a}", "check", "is none of not_null, in_range"),
    ("{check: {not_null: a}}", "check", "is none of not_null, in_range"),
    ("{check: not_null}", "check", "not_null needs column"),
    ("{check: in_range, column: a}", "check", "in_range needs a column and min or max"),
    ("{check: in_range, column: a, min: 2, max: 1}", "min", "is above max (1)"),
    ("{check: in_range, column: a, min: true}", "min", "must be"),
    ("{check: not_null, column: a, min: 1}", "min", "does not go with `check: not_null`"),
    ("{check: in_range, column: a, min: .nan}", "min", "NaN is no bound"),
    ("{check: in_range, column: a, max: .NaN}", "max", "NaN is no bound"),
    ("{check: not_null, column: a, within: table}", "within", "does not go with `check: not_null`"),
    ("{check: in_set, column: a}", "check", "in_set needs column and values"),
    ("{check: in_set, column: a, values: []}", "values", "must not be empty"),
    ("{check: matches, column: a, pattern: '['}", "pattern", "is not a regular expression"),
    ("{check: matches, column: a, pattern: 'a{9999999999}'}", "pattern", "is too large a regular expression"),
    ("{check: length, column: a, min: 1.5}", "min", "1.5 is no whole number"),
    ("{check: unique}", "check", "unique needs either `column` or `columns`"),
    ("{check: unique, column: a, on_failure: quarantine}", "on_failure", "block or warn"),
    ("{check: min_rows, min: 1, on_failure: quarantine}", "on_failure", "block or warn"),
    ("{check: min_rows, min: -1}", "min", "-1 is no whole number"),
    ("{check: min_rows, min: 99999999}", "min", "no batch has so many rows: ingest.max_records is"),
    ("{check: not_null, column: a, name: 'a b'}", "name", "letters, digits and _"),
    ("{check: not_null, column: a, name: freshness}", "name", "every table has a check called freshness"),
    ("{sql: 'a > 1', column: a}", "column", "does not go with `sql`"),
    ("{sql: '(a > 1'}", "sql", "a ( is not closed"),
    ("{sql: 'a > 1)'}", "sql", "a ) too many"),
    ('{sql: "a = \'x"}', "sql", "a quote is not closed"),
    ("{sql: 'a > 1; drop table b'}", "sql", "one condition only"),
    ("{sql: 'a > 1 -- and'}", "sql", "one condition only"),
    ("{sql: ''}", "sql", "must not be empty"),
    ("{sql: 'a > (SELECT max(a) FROM t)'}", "sql", "no subqueries"),
    ("{sql: 'a in (table t)'}", "sql", "no subqueries"),
    ("{sql: 'at < now()'}", "sql", "now does not give the same answer"),
    ("{sql: 'at < current_timestamp'}", "sql", "current_timestamp does not give the same answer"),
    ("{sql: 'day < current_date()'}", "sql", "current_date does not give the same answer"),
    ("{sql: 'day < `current_date`()'}", "sql", "current_date does not give the same answer"),
    ("{sql: 'at < `current_timestamp`'}", "sql", "current_timestamp does not give the same answer"),
    ("{sql: 'at < localtimestamp ()'}", "sql", "localtimestamp does not give the same answer"),
    ("{sql: 'a = Session_User'}", "sql", "Session_User does not give the same answer"),
    ("{sql: 'a < unix_timestamp( )'}", "sql", "unix_timestamp( ) does not give the same answer"),
    ("{sql: '`now`() > at'}", "sql", "now does not give the same answer"),
    ('{sql: "user() = a"}', "sql", "user does not give the same answer"),
    ("{sql: \"day > date'today'\"}", "sql", "'today' is a time to Spark"),
    ("{sql: \"cast(' now UTC ' as timestamp) > at\"}", "sql", "' now UTC ' is a time to Spark"),
    ("{sql: 'exists(from shop.orders)'}", "sql", "no subqueries"),
    ("{sql: 'rand() < a'}", "sql", "rand does not give the same answer"),
    ("{sql: \"java_method('java.lang.System', 'exit', 1) is null\"}", "sql", "java_method has no place"),
]


@pytest.mark.parametrize(("rule", "key", "message"), MISTAKES)
def test_a_mistake_in_a_quality_rule_is_named_with_its_line(installation, rule, key, message):
    installation.contract(f"topic: orders\nquality:\n  - {rule}\n")
    [found] = installation.problems()
    assert (found.line, found.key) == (3, f"quality.0.{key}")
    assert message in found.message


@pytest.mark.parametrize(
    "rule",
    [
        r"{check: matches, column: a, pattern: '\p{Lu}\p{L}*'}",
        "{check: matches, column: a, pattern: '(?<first>[a-z]+)'}",
        "{check: matches, column: a, pattern: '[a-z&&[^aeiou]]+'}",
        "{sql: \"a in ('todays', 'not now') and extract(year from at) > 2000\"}",
        "{sql: 'exists(tags, tag -> tag = a)'}",
        "{sql: \"current_balance >= 0 or `current_balance` is null or status = 'CLOSED'\"}",
        "{sql: 'account.current_status = 1 and account.current_date > day and current_time.of > 0'}",
        "{sql: 'session_user_id > 0 and curdate_x > day and localtimestamp_utc > at and current_dates > 0'}",
        "{sql: 'unix_timestamp(at) > 0 and curdate > day and `user` is not null'}",
        "{check: in_set, column: a, values: [today, now]}",
    ],
)
def test_what_java_and_spark_understand_is_theirs_to_judge(installation, rule):
    installation.contract(f"topic: orders\nquality:\n  - {rule}\n").load()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("accepted_values", "in_set"),
        ("str_length", "length"),
        ("in_rnge", "in_range"),
        ("between", "in_range"),
    ],
)
def test_checks_are_found_by_what_dbt_and_pandera_call_them(installation, said, meant):
    installation.contract(f"topic: orders\nquality: [{{check: {said}, column: a}}]\n")
    assert installation.problem().suggestion == meant


def test_two_rules_of_one_name_are_told_apart_by_a_name(installation):
    twice = "{check: in_range, column: a, min: 1}"
    installation.contract(f"topic: orders\nquality:\n  - {twice}\n  - {twice}\n")
    found = installation.problem()
    assert (found.line, found.key) == (4, "quality.1")
    assert "is called in_range_a, as rule 0 is" in found.message
    named = "{check: in_range, column: a, max: 9, name: a_is_small}"
    installation.contract(f"topic: orders\nquality:\n  - {twice}\n  - {named}\n").load()


@pytest.mark.parametrize(
    ("rule", "title"),
    [
        ({"column": "amount", "check": "in_range", "min": 0}, "in_range_amount"),
        ({"column": "customer.`e.mail`", "check": "not_null"}, "not_null_customer__e_mail_"),
        ({"check": "min_rows", "min": 1}, "min_rows"),
        ({"check": "unique", "columns": ["a", "b"], "on_failure": "warn"}, "unique_a_b"),
        ({"sql": "amount >= 0  or status = 'REFUND'"}, "sql_e229241d"),
        ({"sql": "amount >= 0\n or status = 'REFUND'", "on_failure": "warn"}, "sql_e229241d"),
        ({"sql": "`select` > 1", "name": "chosen"}, "chosen"),
        ({"sql": "name like '%(;--' and `a)b` is not null and extract(year from at) > 1"}, "sql_6b6fb289"),
    ],
)
def test_a_rule_has_a_name_that_stays(installation, rule, title):
    """Names of checks and causes are for ever: this test may gain lines, never change one."""
    installation.contract(f"topic: orders\nquality: [{json.dumps(rule)}]\n").load()
    assert QualityRule.model_validate(rule).title == title


def test_whole_numbers_are_kept_to_the_last_digit(installation):
    text = "topic: orders\nquality: [{check: in_set, column: a, values: [9007199254740993, 1.5, true, NO]}]\n"
    (rule,) = installation.contract(text).load().contracts[0].quality
    assert rule.values == (9007199254740993, 1.5, True, "NO")


@pytest.mark.parametrize(
    "written",
    [
        "0.1234567890123456788",
        "99999999999999999999999999999.999999999",
        "0.005",
        "1.50",
        "-1.5e+3",
        "1e-400",
    ],
)
def test_a_bound_has_all_the_digits_that_were_written(installation, written):
    """Given a number that no float is, unquoted, when the contract is read, then it is the same bound as in quotes."""
    rules = (
        f"[{{check: in_range, column: a, min: {written}}}, {{check: in_set, column: b, values: [{written}]}}]"
    )
    [contract] = installation.contract(f"topic: orders\nquality: {rules}\n").load().contracts
    low, [member] = contract.quality[0].min, contract.quality[1].values
    assert Decimal(str(low)) == Decimal(str(member)) == Decimal(written)
