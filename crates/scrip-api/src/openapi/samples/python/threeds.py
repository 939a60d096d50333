# Samples of the tag 3-D Secure. One section for each operation: see CONTRIBUTING.md.

# operation: create_threeds_session
# A session of a merchant. For a customer, pass device="browser" and device_info instead of the type.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

session = client.threeds.sessions.create(type="merchant", token_id=os.environ["TOKEN_ID"])
print(session.id, session.card_brand, session.recommended_version)

# operation: get_threeds_session
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

session = client.threeds.sessions.get(os.environ["SESSION_ID"])
print(session.id, session.type, session.version.recommended_version)

# operation: update_threeds_session
# The values come from the 3-D Secure SDK of the app.
# The client library has no method for this operation.
import json
import os
import urllib.request

device_info = {
    "sdk_transaction_id": "b2385523-a66c-4907-ac3c-91848e8c0067",
    "sdk_application_id": "a2385523-a66c-4907-ac3c-91848e8c0068",
    "sdk_encryption_data": "e30.e30.e30.e30.e30",
    "sdk_ephemeral_public_key": {
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
    },
    "sdk_max_timeout": "05",
    "sdk_reference_number": "3DS_LOA_SDK_1",
    "sdk_render_options": {"sdk_interface": "01", "sdk_ui_type": ["01", "02", "03", "04"]},
}
request = urllib.request.Request(
    f"{os.environ['SCRIP_URL']}/3ds/sessions/{os.environ['SESSION_ID']}",
    headers={"BT-API-KEY": os.environ["SCRIP_KEY"], "Content-Type": "application/json"},
    data=json.dumps({"device_info": device_info}).encode(),
    method="PUT",
)
with urllib.request.urlopen(request) as response:
    print(json.load(response))

# operation: authenticate_threeds_session
# A merchant session. In a session of a customer, use payment-transaction and no decoupled_challenge_max_time.
import os

from basis_theory import (
    BasisTheory,
    ThreeDsCardholderInfo,
    ThreeDsMerchantInfo,
    ThreeDsPurchaseInfo,
    ThreeDsRequestorInfo,
)

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

result = client.threeds.sessions.authenticate(
    os.environ["SESSION_ID"],
    authentication_category="payment",
    authentication_type="other-payment",
    decoupled_challenge_max_time=5,
    purchase_info=ThreeDsPurchaseInfo(
        amount="8000",
        currency="826",
        exponent="2",
        date="20261109141010",
        transaction_type="purchase",
    ),
    merchant_info=ThreeDsMerchantInfo(
        mid="9876543210001",
        acquirer_bin="000000999",
        name="A shop",
        category_code="7922",
        country_code="826",
    ),
    requestor_info=ThreeDsRequestorInfo(id="1", name="A shop", url="https://shop.example"),
    cardholder_info=ThreeDsCardholderInfo(name="Ada Lovelace", email="ada@mail.example"),
)
print(result.authentication_status, result.eci, result.ds_transaction_id)

# operation: get_challenge_result
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_KEY"], base_url=os.environ["SCRIP_URL"])

result = client.threeds.sessions.get_challenge_result(os.environ["SESSION_ID"])
print(result.authentication_status, result.eci, result.ds_transaction_id)

# operation: notify_method
# The browser of the cardholder sends this form. No key, and no method in the client library.
import base64
import json
import os
import urllib.parse
import urllib.request

session_id = os.environ["SESSION_ID"]
message = json.dumps({"threeDSServerTransID": session_id}).encode()
form = {"threeDSMethodData": base64.urlsafe_b64encode(message).decode().rstrip("=")}
with urllib.request.urlopen(
    f"{os.environ['SCRIP_URL']}/3ds/sessions/{session_id}/method-notification",
    data=urllib.parse.urlencode(form).encode(),
) as response:
    print(response.read().decode())

# operation: notify_challenge
# The browser of the cardholder sends this form at the end of the challenge.
# No key, and no method in the client library.
import base64
import json
import os
import urllib.parse
import urllib.request

session_id = os.environ["SESSION_ID"]
message = {
    "messageType": "CRes",
    "messageVersion": "2.2.0",
    "threeDSServerTransID": session_id,
    "acsTransID": os.environ["ACS_TRANSACTION_ID"],
    "challengeCompletionInd": "Y",
    "transStatus": "Y",
}
encoded = base64.urlsafe_b64encode(json.dumps(message).encode()).decode().rstrip("=")
with urllib.request.urlopen(
    f"{os.environ['SCRIP_URL']}/3ds/sessions/{session_id}/challenge-notification",
    data=urllib.parse.urlencode({"cres": encoded}).encode(),
) as response:
    print(response.read().decode())

# operation: receive_result
# The directory server sends this message. Only the directory server knows the secret.
# No key, and no method in the client library.
import json
import os
import urllib.request

session_id, secret = os.environ["SESSION_ID"], os.environ["RESULT_SECRET"]
message = {
    "messageType": "RReq",
    "messageVersion": "2.2.0",
    "messageCategory": "01",
    "threeDSServerTransID": session_id,
    "acsTransID": os.environ["ACS_TRANSACTION_ID"],
    "dsTransID": os.environ["DS_TRANSACTION_ID"],
    "transStatus": "Y",
    "authenticationValue": "AAECAwQFBgcICQoLDA0ODxAREhM=",
    "eci": "05",
    "interactionCounter": "01",
}
request = urllib.request.Request(
    f"{os.environ['SCRIP_URL']}/3ds/sessions/{session_id}/results/{secret}",
    headers={"Content-Type": "application/json"},
    data=json.dumps(message).encode(),
)
with urllib.request.urlopen(request) as response:
    print(json.load(response))

# operation: get_method_page
# A page for a hidden frame in the browser of the cardholder.
# No key, and no method in the client library.
import os
import urllib.request

with urllib.request.urlopen(os.environ["SCRIP_URL"] + "/pages/method.html") as response:
    print(response.read().decode())

# operation: get_challenge_page
# A page for a frame in the browser of the cardholder. No key, and no method in the client library.
import os
import urllib.request

with urllib.request.urlopen(os.environ["SCRIP_URL"] + "/pages/challenge.html") as response:
    print(response.read().decode())
