# Samples of the tag Sessions. One section for each operation: see CONTRIBUTING.md.

# operation: create_access_session
# With the key of a public application. Send the nonce to your backend.
curl -sS --fail-with-body -X POST "$SCRIP_URL/sessions" \
  -H "BT-API-KEY: $SCRIP_PUBLIC_KEY"

# operation: authorize_access_session
# With the key of a private application. The response has no body: print the status.
curl -sS --fail-with-body "$SCRIP_URL/sessions/authorize" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/json" \
  -d @- -w "authorized: %{http_code}\n" <<BODY
{"nonce": "$NONCE", "permissions": ["token:create"]}
BODY
