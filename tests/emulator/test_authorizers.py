"""REQUEST authorizers, and what the API says when they refuse."""

import pytest

from tests.emulator.support import Emulator
from tests.support import eventually


def test_a_missing_identity_source_is_refused_without_asking(emulator):
    first = emulator.get("/forgotten?tenant=a", ("Authorization", "allow"))
    for path, headers in [
        ("/forgotten?tenant=a", []),
        ("/forgotten", [("Authorization", "allow")]),
        ("/forgotten?tenant=", [("Authorization", "allow")]),
        ("/remembered", [("Authorization", "")]),
    ]:
        answer = emulator.get(path, *headers)
        assert (answer.status, answer.json()) == (401, {"message": "Unauthorized"})
        assert answer.header("WWW-Authenticate") == 'Bearer realm="app"'
    last = emulator.get("/forgotten?tenant=a", ("Authorization", "allow"))
    assert int(calls(last)) == int(calls(first)) + 1


def test_the_authorizers_context_reaches_the_function_as_strings(emulator):
    authorizer = emulator.get("/remembered", ("Authorization", "allow")).event["requestContext"]["authorizer"]
    assert (authorizer["principalId"], authorizer["sure"], authorizer["reason"]) == ("user", "true", "allow")
    assert isinstance(authorizer["calls"], str)


def test_its_answer_is_kept_for_the_same_identity(emulator):
    asked = [emulator.get("/remembered", ("Authorization", "allow-all-1")) for _ in range(3)]
    assert len({calls(answer) for answer in asked}) == 1
    other = emulator.get("/remembered", ("Authorization", "allow-all-2"))
    assert calls(other) != calls(asked[0])


def test_a_kept_policy_is_applied_to_other_methods(emulator):
    """An answer that allows only the method that was asked for first refuses the second."""
    assert emulator.get("/remembered", ("Authorization", "allow")).status == 200
    assert emulator.get("/remembered/more", ("Authorization", "allow")).status == 403
    assert emulator.get("/remembered", ("Authorization", "allow-all")).status == 200
    assert emulator.get("/remembered/more", ("Authorization", "allow-all")).status == 200


def test_with_no_time_to_keep_it_is_asked_each_time(emulator):
    asked = [emulator.get("/forgotten?tenant=a", ("Authorization", "allow")) for _ in range(3)]
    assert len({calls(answer) for answer in asked}) == 3


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("deny", "User is not authorized to access this resource with an explicit deny"),
        ("elsewhere", "User is not authorized to access this resource"),
    ],
)
def test_a_refusal_is_as_the_template_has_it(emulator, token, said):
    answer = emulator.get("/forgotten?tenant=acme", ("Authorization", token), ("x-asked", "yes"))
    assert answer.status == 403
    assert answer.json() == {"reason": token, "path": "/forgotten", "said": said}
    assert answer.header("WWW-Authenticate") == 'Bearer error="insufficient_scope"'
    assert (answer.header("X-Asked"), answer.header("X-Tenant")) == ("yes", "acme")


def test_a_source_that_stands_for_nothing_gives_no_header(emulator):
    answer = emulator.get("/remembered", ("Authorization", "deny"))
    assert (answer.status, answer.header("X-Asked"), answer.header("X-Tenant")) == (403, None, None)


def test_an_authorizer_that_says_unauthorized_is_a_401(emulator):
    answer = emulator.get("/remembered", ("Authorization", "unknown"))
    assert (answer.status, answer.header("WWW-Authenticate")) == (401, 'Bearer realm="app"')


@pytest.mark.parametrize("token", ["raise", "nested", "nobody"])
def test_an_authorizer_that_fails_or_answers_nonsense_is_a_500(emulator, token):
    answer = emulator.get("/remembered", ("Authorization", token))
    assert (answer.status, answer.json()) == (500, {"message": None})
    assert answer.header("x-amzn-ErrorType") == "AuthorizerConfigurationException"
    assert answer.header("X-Fault") == "ours"


def test_the_cache_forgets_after_its_time(built):
    with Emulator(built, "--parameter", "Remember=1") as emulator:
        first = calls(emulator.get("/remembered", ("Authorization", "allow")))
        eventually(lambda: calls(emulator.get("/remembered", ("Authorization", "allow"))) != first)


def test_where_iam_is_asked_for_a_signature_is_needed(emulator):
    assert emulator.get("/signed").json() == {"message": "Missing Authentication Token"}
    answer = emulator.get("/signed", ("Authorization", "Bearer x"))
    assert (answer.status, answer.header("x-amzn-ErrorType")) == (403, "IncompleteSignatureException")
    signed = "AWS4-HMAC-SHA256 Credential=me/20260101/us-east-1/execute-api/aws4_request, SignedHeaders=host, Signature=0"
    identity = emulator.get("/signed", ("Authorization", signed)).event["requestContext"]["identity"]
    assert (identity["accessKey"], identity["userArn"]) == ("me", "arn:aws:iam::123456789012:user/me")


def calls(answer):
    return answer.event["requestContext"]["authorizer"]["calls"]
