# Samples of the tag Token intents. One section for each operation: see CONTRIBUTING.md.

# operation: create_token_intent
curl -sS --fail-with-body "$SCRIP_URL/token-intents" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "type": "card",
    "data": {
      "number": "4242424242424242",
      "expiration_month": 12,
      "expiration_year": 2031,
      "cvc": "123"
    }
  }'

# operation: get_token_intent
curl -sS --fail-with-body "$SCRIP_URL/token-intents/$TOKEN_INTENT_ID" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: delete_token_intent
# The response has no body: print the status.
curl -sS --fail-with-body -X DELETE "$SCRIP_URL/token-intents/$TOKEN_INTENT_ID" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -w "deleted $TOKEN_INTENT_ID: %{http_code}\n"
