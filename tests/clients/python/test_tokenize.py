"""Tokenize and detokenize, by the official Python client."""

import uuid

import pytest
from basis_theory.errors import BadRequestError, ConflictError, ForbiddenError

CARD = {"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030, "cvc": "123"}


def test_there_and_back(private):
    body = {"name": "Jo", "card": {"type": "card", "data": CARD}, "tags": ["a", None, {}], "since": 1999}
    made = private.tokens.tokenize(request=body)
    assert made["card"]["data"] == CARD and made["card"]["_extras"] == {"deduplicated": False}
    assert made["tags"][1:] == [None, {}]
    assert private.tokens.get(made["name"]).data == "Jo"
    expressions = {
        "name": "{{ %s }}" % made["name"],
        "card": "{{ %s }}" % made["card"]["id"],
        "since": "{{ %s }}" % made["since"],
        "text": "{{ %s }}, card {{ %s | json: '$.number' | last4 }}" % (made["name"], made["card"]["id"]),
        "type": "{{ token: %s | json: '$.type' }}" % made["card"]["id"],
    }
    assert private.tokens.detokenize(request=expressions) == {
        "name": "Jo", "card": CARD, "since": 1999, "text": "Jo, card 4242", "type": "card",
    }


def test_any_body(private):
    assert private.tokens.get(private.tokens.tokenize(request="alone")).data == "alone"
    one, two = private.tokens.tokenize(request=[1, True])
    assert private.tokens.detokenize(request=["{{ %s }}" % one, "{{ %s }}" % two]) == [1, True]


def test_a_repeat_has_the_first_answer(private):
    once = {"idempotency_key": str(uuid.uuid4())}
    first = private.tokens.tokenize(request={"card": {"type": "card", "data": CARD}, "name": "Jo"}, **once)
    again = private.tokens.tokenize(request={"other": 1}, **once)
    del first["card"]["data"]["cvc"]
    assert again == first


def test_a_browser_makes_tokens_and_reads_none(public):
    made = public.tokens.tokenize(request={"card": {"type": "card", "data": CARD}, "name": "Jo"})
    assert made["card"]["data"]["number"] == "XXXXXXXXXXXX4242"
    with pytest.raises(ForbiddenError):
        public.tokens.detokenize(request="{{ %s }}" % made["name"])


def test_mistakes_are_understood(private):
    with pytest.raises(BadRequestError) as refused:
        private.tokens.tokenize(request={"a": [{"type": "card", "data": {"number": "1"}}]})
    assert "a[0].data.number" in refused.value.body.errors
    with pytest.raises(BadRequestError) as refused:
        private.tokens.tokenize(request=[1, 2, 3, 4, 5, 6])
    assert "tokenize_limit" in refused.value.body.errors
    named = {"id": f"python-{uuid.uuid4()}", "type": "token", "data": 1}
    with pytest.raises(ConflictError):
        private.tokens.tokenize(request=[named, named])
    with pytest.raises(BadRequestError) as unknown:
        private.tokens.detokenize(request={"a": "{{ nobody }}"})
    assert "a" in unknown.value.body.errors
