# Samples of the tag Client encryption keys. One section for each operation: see CONTRIBUTING.md.

# operation: list_client_keys
curl -sS --fail-with-body "$SCRIP_URL/keys" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: create_client_key
# Publish the public key of the response in your pages and apps. Without expires_at, the key
# lives for one year.
curl -sS --fail-with-body -X POST "$SCRIP_URL/keys" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: get_client_key
curl -sS --fail-with-body "$SCRIP_URL/keys/$CLIENT_KEY_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: delete_client_key
# The response has no body: print the status.
curl -sS --fail-with-body -X DELETE "$SCRIP_URL/keys/$CLIENT_KEY_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -w "deleted $CLIENT_KEY_ID: %{http_code}\n"

# operation: get_client_public_key
curl -sS --fail-with-body "$SCRIP_URL/keys/$CLIENT_KEY_ID/public-key" \
  -H "BT-API-KEY: $SCRIP_KEY"
