"""Spark DDL as contracts write it."""

import re

import pytest

from tidemark.domain.columns.ddl import parse_ddl
from tidemark.domain.columns.spark_types import spark_ddl


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("bigint", "long"),
        ("LONG", "long"),
        ("int", "int"),
        ("Integer", "int"),
        ("boolean", "boolean"),
        ("float", "float"),
        ("double", "double"),
        ("string", "string"),
        ("binary", "binary"),
        ("date", "date"),
        ("timestamp", "timestamptz"),
        ("timestamp_ltz", "timestamptz"),
        ("timestamp_ntz", "timestamp"),
        ("decimal", "decimal(10,0)"),
        ("DECIMAL(5)", "decimal(5,0)"),
        ("numeric( 38 , 38 )", "decimal(38,38)"),
        ("array<array<int>>", "list<list<int>>"),
        ("map<string,map<int,date>>", "map<string, map<int, date>>"),
        ("struct<a:int,b bigint>", "struct<a: int, b: long>"),
        (
            "struct<`a b``c`: int comment 'of it\\'s own', timestamp: date>",
            "struct<a b`c: int, timestamp: date>",
        ),
    ],
)
def test_a_type_is_read(text, found):
    assert str(parse_ddl(text)) == found
    assert parse_ddl(spark_ddl(parse_ddl(text))) == parse_ddl(text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "a type is missing at the end"),
        ("bigin", "bigin is no type of a table (did you mean bigint?)"),
        ("tinyint", "tinyint is no type of a table (did you mean int?)"),
        ("array<SHORT>", "short is no type of a table (did you mean int?)"),
        ("datetime", "datetime is no type of a table (did you mean timestamp?)"),
        ("variant", "variant is no type of a table: boolean"),
        ("varchar(3)", "varchar is no type of a table (did you mean string?)"),
        ("array", "< is missing"),
        ("array<int", "> is missing"),
        ("array<int>>", "> follows the type"),
        ("struct<>", "a name is missing before >"),
        ("struct<a>", "a type is missing before >"),
        ("map<string>", ", is missing before >"),
        ("decimal(39,0)", "no decimal(39, 0)"),
        ("decimal(3,4)", "no decimal(3, 4)"),
        ("decimal(x)", "x is no number"),
        ("int NOT NULL", "leave out NOT NULL"),
        ("struct<a: int not null, b: int>", "leave out NOT NULL"),
        ("int unsigned", "unsigned follows the type"),
        ("a%b", "'%' does not belong into one"),
    ],
)
def test_what_is_no_type_says_what_was_expected(text, reason):
    with pytest.raises(ValueError, match=re.escape(reason)):
        parse_ddl(text)
