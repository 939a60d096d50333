"""Tokenize and detokenize through the official Python client."""

import uuid

import pytest
from basis_theory.errors import BadRequestError, ConflictError, ForbiddenError

CARD = {"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030, "cvc": "123"}


def test_tokenized_values_can_be_detokenized(private):
    body = {"name": "Jo", "card": {"type": "card", "data": CARD}, "tags": ["a", None, {}], "since": 1999}
    created = private.tokens.tokenize(request=body)
    assert created["card"]["data"] == CARD and created["card"]["_extras"] == {"deduplicated": False}
    assert created["tags"][1:] == [None, {}]
    assert private.tokens.get(created["name"]).data == "Jo"
    expressions = {
        "name": "{{ %s }}" % created["name"],
        "card": "{{ %s }}" % created["card"]["id"],
        "since": "{{ %s }}" % created["since"],
        "text": "{{ %s }}, card {{ %s | json: '$.number' | last4 }}" % (created["name"], created["card"]["id"]),
        "type": "{{ token: %s | json: '$.type' }}" % created["card"]["id"],
    }
    assert private.tokens.detokenize(request=expressions) == {
        "name": "Jo", "card": CARD, "since": 1999, "text": "Jo, card 4242", "type": "card",
    }


def test_any_json_body_can_be_tokenized(private):
    assert private.tokens.get(private.tokens.tokenize(request="alone")).data == "alone"
    one, two = private.tokens.tokenize(request=[1, True])
    assert private.tokens.detokenize(request=["{{ %s }}" % one, "{{ %s }}" % two]) == [1, True]


def test_repeated_tokenize_is_replayed(private):
    once = {"idempotency_key": str(uuid.uuid4())}
    first = private.tokens.tokenize(request={"card": {"type": "card", "data": CARD}, "name": "Jo"}, **once)
    again = private.tokens.tokenize(request={"other": 1}, **once)
    del first["card"]["data"]["cvc"]
    assert again == first


def test_public_key_tokenizes_but_cannot_detokenize(public):
    created = public.tokens.tokenize(request={"card": {"type": "card", "data": CARD}, "name": "Jo"})
    assert created["card"]["data"]["number"] == "XXXXXXXXXXXX4242"
    with pytest.raises(ForbiddenError):
        public.tokens.detokenize(request="{{ %s }}" % created["name"])


def test_invalid_requests_raise_the_error_classes_of_the_client(private):
    with pytest.raises(BadRequestError) as rejected:
        private.tokens.tokenize(request={"a": [{"type": "card", "data": {"number": "1"}}]})
    assert "a[0].data.number" in rejected.value.body.errors
    with pytest.raises(BadRequestError) as rejected:
        private.tokens.tokenize(request=[1, 2, 3, 4, 5, 6])
    assert "tokenize_limit" in rejected.value.body.errors
    named = {"id": f"python-{uuid.uuid4()}", "type": "token", "data": 1}
    with pytest.raises(ConflictError):
        private.tokens.tokenize(request=[named, named])
    with pytest.raises(BadRequestError) as unknown:
        private.tokens.detokenize(request={"a": "{{ unknown }}"})
    assert "a" in unknown.value.body.errors
