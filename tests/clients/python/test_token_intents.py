"""Token intents and card details through the official Python client."""

import pytest
from basis_theory.core.api_error import ApiError
from basis_theory.errors import NotFoundError

CARD = {"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030, "cvc": "123"}


def test_token_intents_can_be_created_read_and_converted(vault, private):
    intent = vault.client("public").token_intents.create(type="card", data=CARD)
    assert intent.type == "card"
    assert intent.data is None
    assert intent.card.last4 == "4242"
    assert intent.card.brand == "visa"
    assert intent.expires_at > intent.created_at
    assert private.token_intents.get(intent.id).card == intent.card

    token = private.tokens.create(token_intent_id=intent.id, metadata={"customer": "7"})
    assert token.type == "card"
    assert token.fingerprint == intent.fingerprint
    assert token.data == {key: value for key, value in CARD.items() if key != "cvc"}
    assert token.card.brand == "visa"
    with pytest.raises(ApiError) as again:
        private.tokens.create(token_intent_id=intent.id)
    assert again.value.status_code == 400


def test_deleted_token_intent_no_longer_exists(private):
    intent = private.token_intents.create(type="card", data=CARD)
    assert private.token_intents.delete(intent.id) is None
    with pytest.raises(NotFoundError):
        private.token_intents.delete(intent.id)


def test_tokenize_converts_token_intents(private):
    intent = private.token_intents.create(type="card", data=CARD)
    tokenized = private.tokens.tokenize(request={"card": {"token_intent_id": intent.id}})
    assert tokenized["card"]["card"]["brand"] == "visa"
