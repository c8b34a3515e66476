"""Rule: `catalog.auth` and `catalog.ssl` hold what PyIceberg heeds, or are a finding that tells no secret."""

import pytest

from tests.unit.contract.conftest import PLATFORM

SECRET = "geheim"
MISTAKES = [
    (f"auth: 'admin:{SECRET}'", "auth", "must be a mapping", None),
    (f"auth: {{type: basic, basic: 'u:{SECRET}'}}", "auth.basic", "must be a mapping", None),
    ("auth: {type: bsic}", "auth.type", "is none of basic, google", "basic"),
    ("auth: {basic: {username: u, password: p}}", "auth.type", "is missing", None),
    ("auth: {type: basic}", "auth", "needs basic: {username: …, password: …}", None),
    ("auth: {type: basic, basic: {username: u}}", "auth.basic.password", "is missing", None),
    (
        f"auth: {{type: basic, basic: {{username: u, password: p}}, password: {SECRET}}}",
        "auth.password",
        "unknown key",
        "basic.password",
    ),
    ("auth: {type: noop, google: {scopes: [a]}}", "auth", "google has no effect", None),
    (
        "auth: {type: oauth2, oauth2: {client_id: i}}",
        "auth.type",
        "`credential` and `oauth2-server-uri`",
        None,
    ),
    ("auth: {type: legacyoauth2}", "auth.type", "`credential` and `oauth2-server-uri`", None),
    ("auth: {type: custom, custom: {a: b}}", "auth", "impl", None),
    ("auth: {type: google, impl: a.B}", "auth", "impl", None),
    ("ssl: {ca_bundle: /ca.pem}", "ssl.ca_bundle", "unknown key", "cabundle"),
    ("ssl: {client: /crt.pem}", "ssl.client", "must be a mapping", None),
    ("ssl: {client: {key: /key.pem}}", "ssl.client.cert", "is missing", None),
]


@pytest.mark.parametrize(("said", "key", "message", "suggestion"), MISTAKES)
def test_what_pyiceberg_would_not_heed_is_a_finding(installation, said, key, message, suggestion):
    installation.platform(PLATFORM.replace('"http://catalog"', f'"http://c", {said}'))
    problems = {each.key: each for each in installation.problems()}
    assert message in problems[f"catalog.{key}"].message
    assert problems[f"catalog.{key}"].suggestion == suggestion
    assert SECRET not in str(problems)


@pytest.mark.parametrize(
    "auth",
    [
        {"type": "noop"},
        {"type": "google"},
        {"type": "entra", "entra": {"scopes": ["a"], "managed_identity_client_id": "i"}},
        {"type": "custom", "impl": "a.B", "custom": {"margin": 60, "sub": {"on": True}}},
    ],
)
def test_a_login_reaches_pyiceberg_as_it_is_written(installation, auth):
    ssl = {"cabundle": "/ca.pem"}
    said = f"auth: {auth}, ssl: {ssl}".replace("True", "true")
    installation.platform(PLATFORM.replace('"http://catalog"', f'"http://c", {said}'))
    properties = installation.load().platform.catalog.pyiceberg_properties()
    assert (properties["auth"], properties["ssl"]) == (auth, ssl)


def test_passwords_of_digits_are_the_digits(installation):
    for auth, path in (
        ("{type: basic, basic: {username: u, password: 0042}}", ("basic", "password")),
        ("{type: custom, impl: a.B, custom: {client_secret: 0042}}", ("custom", "client_secret")),
        ("{type: custom, impl: a.B, custom: {at: {client_secret: 0042}}}", ("custom", "at", "client_secret")),
    ):
        installation.platform(PLATFORM.replace('"http://catalog"', f'"http://c", auth: {auth}'))
        found = installation.load().platform.catalog.pyiceberg_properties()["auth"]
        for key in path:
            found = found[key]
        assert found == "0042"
