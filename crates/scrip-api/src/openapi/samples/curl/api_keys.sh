# Samples of the tag API keys. One section for each operation: see CONTRIBUTING.md.

# operation: regenerate_application_key
# Removed: the response is always 410. Create a second key and delete the old one.
curl -sS -X POST "$SCRIP_URL/applications/$APPLICATION_ID/regenerate" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: list_api_keys
curl -sS --fail-with-body "$SCRIP_URL/applications/$APPLICATION_ID/keys" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: create_api_key
# The response is the only one that shows the key.
curl -sS --fail-with-body -X POST "$SCRIP_URL/applications/$APPLICATION_ID/keys" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: get_api_key
curl -sS --fail-with-body "$SCRIP_URL/applications/$APPLICATION_ID/keys/$API_KEY_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: delete_api_key
# The response has no body: print the status.
curl -sS --fail-with-body -X DELETE "$SCRIP_URL/applications/$APPLICATION_ID/keys/$API_KEY_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -w "deleted $API_KEY_ID: %{http_code}\n"
