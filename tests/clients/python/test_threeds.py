"""3-D Secure sessions through the official Python client, and a challenge like a browser does it."""

import base64
import json
import re
import time
import urllib.parse
import urllib.request

import pytest
from basis_theory.core.api_error import ApiError
from basis_theory.types.three_ds_cardholder_info import ThreeDsCardholderInfo
from basis_theory.types.three_ds_device_info import ThreeDsDeviceInfo
from basis_theory.types.three_ds_merchant_info import ThreeDsMerchantInfo
from basis_theory.types.three_ds_purchase_info import ThreeDsPurchaseInfo
from basis_theory.types.three_ds_requestor_info import ThreeDsRequestorInfo

PAYMENT = {
    "authentication_category": "payment",
    "purchase_info": ThreeDsPurchaseInfo(
        amount="8000", currency="826", exponent="2", date="20261109141010", transaction_type="purchase"
    ),
    "merchant_info": ThreeDsMerchantInfo(
        mid="9876543210001", acquirer_bin="000000999", name="A shop", category_code="7922", country_code="826"
    ),
    # The client does not know these attributes but sends them.
    "requestor_info": ThreeDsRequestorInfo(id="1", name="A shop", url="https://shop.example"),
    "cardholder_info": ThreeDsCardholderInfo(name="Ada", email="ada@mail.example"),
}
BROWSER = ThreeDsDeviceInfo(
    browser_color_depth="24",
    browser_javascript_enabled=True,
    browser_java_enabled=False,
    browser_language="en-US",
    browser_screen_height="600",
    browser_screen_width="800",
    browser_tz="0",
    browser_user_agent="Browser/1.0",
)


def intent(client, number):
    data = {"number": number, "expiration_month": 12, "expiration_year": 2035}
    return client.token_intents.create(type="card", data=data).id


def create(client, **session):
    """The server fetches card ranges in the background after its start."""
    for _ in range(100):
        try:
            return client.threeds.sessions.create(**session)
        except ApiError as error:
            if error.status_code != 424 or error.body["error"]["service_status"] != "503":
                raise
            time.sleep(0.1)
    raise AssertionError("no card ranges")


def post(url, **fields):
    request = urllib.request.Request(url, urllib.parse.urlencode(fields).encode())
    with urllib.request.urlopen(request, timeout=20) as response:
        return response.read().decode()


def test_merchant_session_is_authenticated(vault, private):
    session = create(private, type="merchant", token_intent_id=intent(private, "4242424242424242"))
    assert session.type == "merchant"
    assert session.card_brand == "Visa"
    assert session.directory_server_id == "A000000003"
    assert session.recommended_version == "2.2.0"
    authentication = private.threeds.sessions.authenticate(
        session.id, authentication_type="other-payment", decoupled_challenge_max_time=5, **PAYMENT
    )
    assert (authentication.authentication_status, authentication.authentication_status_code) == ("successful", "Y")
    assert authentication.eci == "05" and authentication.liability_shifted
    assert len(base64.b64decode(authentication.authentication_value)) == 20

    found = private.threeds.sessions.get(session.id)
    assert found.tenant_id == vault.tenant_id
    assert found.version.available_versions == ["2.1.0", "2.2.0"]
    assert found.authentication.ds_transaction_id == authentication.ds_transaction_id
    assert found.expiration_date


def test_customer_challenge_succeeds(vault, private):
    card = intent(private, "4200000000000004")
    session = create(vault.client("public"), token_intent_id=card, device="browser", device_info=BROWSER)
    assert session.method_url and session.method_notification_url.startswith(vault.url)
    authentication = private.threeds.sessions.authenticate(
        session.id, authentication_type="payment-transaction", **PAYMENT
    )
    assert authentication.authentication_status == "challenge"
    with pytest.raises(ApiError) as early:
        private.threeds.sessions.get_challenge_result(session.id)
    assert early.value.status_code == 404

    creq = {
        "messageType": "CReq",
        "messageVersion": authentication.threeds_version,
        "threeDSServerTransID": session.id,
        "acsTransID": authentication.acs_transaction_id,
        "challengeWindowSize": "03",
    }
    encoded = base64.urlsafe_b64encode(json.dumps(creq).encode()).decode().rstrip("=")
    page = post(authentication.acs_challenge_url, creq=encoded)
    steps = re.search(r'action="([^"]+)"', page).group(1)
    last = post(steps, action="submit", code="1234")
    assert re.search(r'name="cres"', last)

    result = private.threeds.sessions.get_challenge_result(session.id)
    assert (result.authentication_status, result.directory_status_code) == ("successful", "C")
    assert result.challenge_attempts == "01"


def test_invalid_request_names_the_attribute(private):
    session = create(private, type="merchant", token_intent_id=intent(private, "4242424242424242"))
    with pytest.raises(ApiError) as wrong:
        private.threeds.sessions.authenticate(
            session.id, authentication_category="payment", authentication_type="other-payment"
        )
    assert wrong.value.status_code == 400
    errors = wrong.value.body.errors if hasattr(wrong.value.body, "errors") else wrong.value.body["errors"]
    for name in ("purchase_info", "merchant_info", "cardholder_info", "decoupled_challenge_max_time"):
        assert any(it.startswith(name) for it in errors), errors


def test_directory_server_failure_raises_an_error(private):
    session = create(private, type="merchant", token_intent_id=intent(private, "4200000000000012"))
    with pytest.raises(ApiError) as failed:
        private.threeds.sessions.authenticate(
            session.id, authentication_type="other-payment", decoupled_challenge_max_time=5, **PAYMENT
        )
    assert failed.value.status_code == 424
    assert failed.value.body["error"]["error_source"] == "Directory Server"
    assert failed.value.body["error"]["session_id"] == session.id


def test_card_outside_all_ranges_is_rejected(private):
    create(private, type="merchant", token_intent_id=intent(private, "4242424242424242"))
    with pytest.raises(ApiError) as unknown:
        create(private, type="merchant", token_intent_id=intent(private, "4100000000000003"))
    assert unknown.value.status_code == 424
    assert "The card was not supported by any card schemes" in unknown.value.body["errors"]
