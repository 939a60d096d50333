# Samples of the tag 3-D Secure. One section for each operation: see CONTRIBUTING.md.

# operation: create_threeds_session
# A session of a merchant. For a customer, send "device": "browser" and device_info instead of the type.
curl -sS --fail-with-body "$SCRIP_URL/3ds/sessions" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/json" \
  -d @- <<BODY
{"type": "merchant", "token_id": "$TOKEN_ID"}
BODY

# operation: get_threeds_session
curl -sS --fail-with-body "$SCRIP_URL/3ds/sessions/$SESSION_ID" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: update_threeds_session
# The values come from the 3-D Secure SDK of the app.
curl -sS --fail-with-body -X PUT "$SCRIP_URL/3ds/sessions/$SESSION_ID" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "device_info": {
      "sdk_transaction_id": "b2385523-a66c-4907-ac3c-91848e8c0067",
      "sdk_application_id": "a2385523-a66c-4907-ac3c-91848e8c0068",
      "sdk_encryption_data": "e30.e30.e30.e30.e30",
      "sdk_ephemeral_public_key": {
        "kty": "EC",
        "crv": "P-256",
        "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
        "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"
      },
      "sdk_max_timeout": "05",
      "sdk_reference_number": "3DS_LOA_SDK_1",
      "sdk_render_options": {"sdk_interface": "01", "sdk_ui_type": ["01", "02", "03", "04"]}
    }
  }'

# operation: authenticate_threeds_session
# A merchant session. In a session of a customer, use payment-transaction and no decoupled_challenge_max_time.
curl -sS --fail-with-body "$SCRIP_URL/3ds/sessions/$SESSION_ID/authenticate" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "authentication_category": "payment",
    "authentication_type": "other-payment",
    "decoupled_challenge_max_time": 5,
    "purchase_info": {
      "amount": "8000",
      "currency": "826",
      "exponent": "2",
      "date": "20261109141010",
      "transaction_type": "purchase"
    },
    "merchant_info": {
      "mid": "9876543210001",
      "acquirer_bin": "000000999",
      "name": "A shop",
      "category_code": "7922",
      "country_code": "826"
    },
    "requestor_info": {"id": "1", "name": "A shop", "url": "https://shop.example"},
    "cardholder_info": {"name": "Ada Lovelace", "email": "ada@mail.example"}
  }'

# operation: get_challenge_result
curl -sS --fail-with-body "$SCRIP_URL/3ds/sessions/$SESSION_ID/challenge-result" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: notify_method
# The browser of the cardholder sends this form. No key.
data=$(printf '{"threeDSServerTransID":"%s"}' "$SESSION_ID" | base64 | tr '+/' '-_' | tr -d '=\n')
curl -sS --fail-with-body "$SCRIP_URL/3ds/sessions/$SESSION_ID/method-notification" \
  --data-urlencode "threeDSMethodData=$data"

# operation: notify_challenge
# The browser of the cardholder sends this form at the end of the challenge. No key.
cres=$(base64 <<MESSAGE | tr '+/' '-_' | tr -d '=\n'
{
  "messageType": "CRes",
  "messageVersion": "2.2.0",
  "threeDSServerTransID": "$SESSION_ID",
  "acsTransID": "$ACS_TRANSACTION_ID",
  "challengeCompletionInd": "Y",
  "transStatus": "Y"
}
MESSAGE
)
curl -sS --fail-with-body "$SCRIP_URL/3ds/sessions/$SESSION_ID/challenge-notification" \
  --data-urlencode "cres=$cres"

# operation: receive_result
# The directory server sends this message. Only the directory server knows the secret. No key.
curl -sS --fail-with-body "$SCRIP_URL/3ds/sessions/$SESSION_ID/results/$RESULT_SECRET" \
  -H "Content-Type: application/json" \
  -d @- <<MESSAGE
{
  "messageType": "RReq",
  "messageVersion": "2.2.0",
  "messageCategory": "01",
  "threeDSServerTransID": "$SESSION_ID",
  "acsTransID": "$ACS_TRANSACTION_ID",
  "dsTransID": "$DS_TRANSACTION_ID",
  "transStatus": "Y",
  "authenticationValue": "AAECAwQFBgcICQoLDA0ODxAREhM=",
  "eci": "05",
  "interactionCounter": "01"
}
MESSAGE

# operation: get_method_page
# A page for a hidden frame in the browser of the cardholder. No key.
curl -sS --fail-with-body "$SCRIP_URL/pages/method.html"

# operation: get_challenge_page
# A page for a frame in the browser of the cardholder. No key.
curl -sS --fail-with-body "$SCRIP_URL/pages/challenge.html"
