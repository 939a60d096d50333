"""Client encryption keys through the official Python client, and data that jwcrypto encrypts for them."""

import base64
import json
from datetime import datetime, timedelta, timezone

import pytest
from basis_theory.errors import BadRequestError, ForbiddenError, NotFoundError
from jwcrypto import jwe, jwk

CARD = {"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030, "cvc": "123"}


def encrypt(key, data):
    """The PEM contains the raw key, not a SubjectPublicKeyInfo."""
    raw = base64.b64decode(key.public_key_pem.splitlines()[1])
    public_key = jwk.JWK(kty="OKP", crv="X25519", x=base64.urlsafe_b64encode(raw).rstrip(b"=").decode())
    header = {"alg": "ECDH-ES", "enc": "A256GCM", "kid": key.key_id}
    token = jwe.JWE(json.dumps(data).encode(), json.dumps(header))
    token.add_recipient(public_key)
    return token.serialize(compact=True)


def test_keys_can_be_created_read_listed_and_deleted(management, private):
    expires_at = datetime.now(timezone.utc) + timedelta(days=1)
    key = management.keys.create(expires_at=expires_at)
    assert abs(key.expires_at - expires_at) < timedelta(seconds=1)
    lines = key.public_key_pem.splitlines()
    assert (len(lines), len(lines[1])) == (3, 44)
    read = management.keys.get(key.key_id)
    assert (read.key_id, read.expires_at) == (key.key_id, key.expires_at)
    assert key.key_id in [it.key_id for it in management.keys.list()]
    assert management.keys.delete(key.key_id) is None
    with pytest.raises(NotFoundError):
        management.keys.get(key.key_id)
    with pytest.raises(ForbiddenError):
        private.keys.list()


def test_card_that_jwcrypto_encrypts_is_stored(vault, management, private):
    key = management.keys.create()
    encrypted = encrypt(key, CARD)
    token = private.tokens.create(type="card", encrypted=encrypted)
    assert private.tokens.get(token.id).card.last4 == "4242"
    intent = vault.client("public").token_intents.create(type="card", encrypted=encrypted)
    # A browser learns nothing about data that it encrypted, or that another page encrypted.
    assert intent.id and intent.card is None
    assert private.tokens.create(token_intent_id=intent.id).card.last4 == "4242"


def test_deleted_key_and_altered_data_are_bad_requests(management, private):
    key = management.keys.create()
    encrypted = encrypt(key, CARD)
    with pytest.raises(BadRequestError):
        private.tokens.create(type="card", encrypted=encrypted[:-2] + "AA")
    management.keys.delete(key.key_id)
    with pytest.raises(BadRequestError):
        private.tokens.create(type="card", encrypted=encrypted)
