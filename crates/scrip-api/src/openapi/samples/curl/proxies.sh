# Samples of the tag Proxies. One section for each operation: see CONTRIBUTING.md.

# operation: list_proxies
# `*` stands for any characters of the name.
curl -sS --fail-with-body "$SCRIP_URL/proxies?name=charge*&page=1&size=100" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: create_proxy
# The key in the response selects the proxy: send it as BT-PROXY-KEY.
curl -sS --fail-with-body "$SCRIP_URL/proxies" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "name": "Charges",
    "destination_url": "https://psp.example/v1",
    "configuration": { "secret": "sk_test_1" },
    "response_transforms": [
      {
        "type": "mask",
        "matcher": "regex",
        "expression": "\"number\":\"(\\d+)\"",
        "replacement": "*"
      }
    ]
  }'

# operation: get_proxy
curl -sS --fail-with-body "$SCRIP_URL/proxies/$PROXY_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: update_proxy
# Replaces all attributes. Absent attributes get their defaults.
curl -sS --fail-with-body -X PUT "$SCRIP_URL/proxies/$PROXY_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "name": "Charges and refunds",
    "destination_url": "https://psp.example/v2"
  }'

# operation: patch_proxy
# Null removes a value. The response has no body: print the status.
curl -sS --fail-with-body -X PATCH "$SCRIP_URL/proxies/$PROXY_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -H "Content-Type: application/merge-patch+json" \
  -d '{ "configuration": { "secret": "sk_test_2" } }' \
  -w "changed $PROXY_ID: %{http_code}\n"

# operation: delete_proxy
# The response has no body: print the status.
curl -sS --fail-with-body -X DELETE "$SCRIP_URL/proxies/$PROXY_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -w "deleted $PROXY_ID: %{http_code}\n"

# operation: set_proxy_client_certificate
# A PEM text has line breaks, which are \n in JSON.
to_json() { awk '{ printf "%s\\n", $0 }' "$1"; }
curl -sS --fail-with-body -X PUT "$SCRIP_URL/proxies/$PROXY_ID/client-certificate" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -H "Content-Type: application/json" \
  -d "{
    \"certificate_pem\": \"$(to_json "$CERTIFICATE_FILE")\",
    \"private_key_pem\": \"$(to_json "$PRIVATE_KEY_FILE")\"
  }"

# operation: delete_proxy_client_certificate
# The response has no body: print the status.
curl -sS --fail-with-body -X DELETE "$SCRIP_URL/proxies/$PROXY_ID/client-certificate" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -w "deleted the certificate of $PROXY_ID: %{http_code}\n"

# operation: invoke_proxy_get
# Asks the destination. Expressions in header values work for every method.
curl -sS --fail-with-body "$SCRIP_URL/proxy" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "BT-PROXY-KEY: $PROXY_KEY"

# operation: invoke_proxy_post
# The vault replaces the expression: the destination gets the number, and this program never has it.
curl -sS --fail-with-body "$SCRIP_URL/proxy" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "BT-PROXY-KEY: $PROXY_KEY" \
  -H "Content-Type: application/json" \
  -d "{ \"amount\": 1500, \"number\": \"{{ $TOKEN_ID | json: '\$.number' }}\" }"

# operation: invoke_proxy_put
# Replaces an object of the destination.
curl -sS --fail-with-body -X PUT "$SCRIP_URL/proxy" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "BT-PROXY-KEY: $PROXY_KEY" \
  -H "Content-Type: application/json" \
  -d "{ \"amount\": 1500, \"number\": \"{{ $TOKEN_ID | json: '\$.number' }}\" }"

# operation: invoke_proxy_patch
# Changes an object of the destination.
curl -sS --fail-with-body -X PATCH "$SCRIP_URL/proxy" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "BT-PROXY-KEY: $PROXY_KEY" \
  -H "Content-Type: application/json" \
  -d "{ \"amount\": 1500, \"number\": \"{{ $TOKEN_ID | json: '\$.number' }}\" }"

# operation: invoke_proxy_delete
# Deletes an object of the destination.
curl -sS --fail-with-body -X DELETE "$SCRIP_URL/proxy" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "BT-PROXY-KEY: $PROXY_KEY"
