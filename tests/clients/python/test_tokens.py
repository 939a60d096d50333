"""Tokens through the official Python client, unmodified."""

import uuid
from datetime import datetime, timezone

import pytest
from basis_theory import AdditionalCardDetails, CardIssuerCountry
from basis_theory.core.api_error import ApiError
from basis_theory.core.request_options import RequestOptions
from basis_theory.errors import (
    BadRequestError,
    ForbiddenError,
    NotFoundError,
    UnauthorizedError,
)

CARD = {"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030, "cvc": "123"}


def test_tokens_can_be_created_read_updated_and_deleted(vault, private):
    token = private.tokens.create(
        type="card",
        data=CARD,
        metadata={"customer": "7"},
        containers=["/pci/high/"],
        search_indexes=["{{ data.number | last4 }}"],
        fingerprint_expression="{{ data.number }}",
        mask={"number": "{{ data.number, reveal_last: 4 }}"},
        expires_at="2090-08-27T02:23:57+00:00",
        deduplicate_token=False,
    )
    assert uuid.UUID(token.id).version == 4
    assert token.tenant_id == vault.tenant_id
    assert token.type == "card"
    assert token.data == CARD
    assert token.card.bin == "42424242"
    assert token.card.last4 == "4242"
    assert (token.card.expiration_month, token.card.expiration_year) == (12, 2030)
    assert token.metadata == {"customer": "7"}
    assert token.containers == ["/pci/high/"]
    assert token.expires_at == datetime(2090, 8, 27, 2, 23, 57, tzinfo=timezone.utc)
    assert token.extras.deduplicated is False

    found = private.tokens.get(token.id)
    assert found.data == CARD
    assert found.fingerprint == token.fingerprint

    updated = private.tokens.update(token.id, data={"expiration_year": 2031}, metadata={"customer": None, "new": "x"})
    assert updated.data["expiration_year"] == 2031
    assert updated.data["number"] == CARD["number"]
    assert updated.metadata == {"new": "x"}
    assert updated.modified_by == token.created_by

    assert private.tokens.delete(token.id) is None
    with pytest.raises(NotFoundError):
        private.tokens.get(token.id)


def test_card_details_are_returned(private):
    plain = private.tokens.create(type="card", data=CARD).card
    assert (plain.brand, plain.funding, plain.authentication) == ("visa", "credit", None)
    assert plain.issuer_country == CardIssuerCountry(alpha2="US", name="United States", numeric="840")
    assert plain.additional is None

    french = private.tokens.create(type="card_number", data="4150580996517927").card
    assert (french.brand, french.authentication) == ("visa", "sca_required")
    assert french.issuer_country.alpha2 == "FR"
    second = AdditionalCardDetails(brand="cartes-bancaires", funding="credit", authentication="sca_required")
    assert french.additional == [second]

    token = private.tokens.create(type="network_token", data={"number": "378282246310005"})
    assert (token.network_token.brand, token.network_token.bin) == ("american-express", "378282")
    unknown = private.tokens.create(type="card", data={"number": "0000000000000000"}).card
    assert (unknown.brand, unknown.funding, unknown.bin) == (None, None, "00000000")


def test_repeated_create_with_an_idempotency_key_is_replayed(private):
    key = str(uuid.uuid4())
    first = private.tokens.create(type="token", data="once", idempotency_key=key)
    again = private.tokens.create(type="token", data="twice", idempotency_key=key)
    assert again == first
    patch = str(uuid.uuid4())
    one = private.tokens.update(first.id, data="patched", idempotency_key=patch)
    two = private.tokens.update(first.id, data="ignored", idempotency_key=patch)
    assert one == two
    assert private.tokens.get(first.id).data == "patched"


def test_public_key_gets_masked_data_only(public):
    token = public.tokens.create(type="card", data=CARD)
    assert token.data["number"] == "XXXXXXXXXXXX4242"
    assert "cvc" not in token.data
    with pytest.raises(ForbiddenError):
        public.tokens.get(token.id)


def test_duplicate_create_returns_the_existing_token(private):
    card = {"number": "5555555555554444"}
    first = private.tokens.create(type="card", data=card)
    again = private.tokens.create(type="card", data=card, deduplicate_token=True)
    assert again.id == first.id
    assert again.extras.deduplicated is True


@pytest.mark.parametrize(
    "type, data",
    [
        ("token", {"nested": [1, {"deep": True}], "big": 12345678901234567890123}),
        ("card_number", "4242424242424242"),
        ("network_token", {"number": "4242424242424242", "expiration_month": 1, "expiration_year": 2031}),
        ("bank", {"routing_number": "021000021", "account_number": "1234567"}),
        ("us_bank_account_number", "1234567"),
        ("us_bank_routing_number", "021000021"),
        ("social_security_number", "123-45-6789"),
        ("employer_id_number", "12-3456789"),
    ],
)
def test_every_token_type_can_be_created(private, type, data):
    token = private.tokens.create(type=type, data=data)
    assert private.tokens.get(token.id).data == data


def test_api_errors_raise_the_error_classes_of_the_client(vault, private):
    with pytest.raises(BadRequestError) as rejected:
        private.tokens.create(type="card", data={"number": "4242424242424241"})
    assert "data.number" in rejected.value.body.errors
    assert "4242424242424241" not in str(rejected.value.body)
    vault.keys["wrong"] = "key_test_us_pvt_WRONG"
    with pytest.raises(UnauthorizedError):
        vault.client("wrong").tokens.get("anything")
    private.tokens.create(id="python-taken", type="token", data=1)
    with pytest.raises(ApiError) as taken:
        private.tokens.create(id="python-taken", type="token", data=2)
    assert taken.value.status_code == 409


def test_trace_id_header_is_returned(private):
    options = RequestOptions(additional_headers={"BT-TRACE-ID": "python-trace"})
    response = private.tokens.with_raw_response.create(type="token", data=1, request_options=options)
    assert response.headers["bt-trace-id"] == "python-trace"
