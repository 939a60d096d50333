# Samples of the tag Tokens. One section for each operation: see CONTRIBUTING.md.

# operation: list_tokens_v1
# Deprecated: use /v2/tokens.
curl -sS --fail-with-body "$SCRIP_URL/tokens?metadata.customer=7&page=1&size=20" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: create_token
curl -sS --fail-with-body "$SCRIP_URL/tokens" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "type": "card",
    "data": {
      "number": "4242424242424242",
      "expiration_month": 12,
      "expiration_year": 2031,
      "cvc": "123"
    },
    "metadata": {"customer": "7"}
  }'

# operation: get_token
curl -sS --fail-with-body "$SCRIP_URL/tokens/$TOKEN_ID" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: update_token
# A merge patch: null removes an attribute.
curl -sS --fail-with-body -X PATCH "$SCRIP_URL/tokens/$TOKEN_ID" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/merge-patch+json" \
  -d '{"data": {"expiration_year": 2032}, "metadata": {"customer": null}}'

# operation: delete_token
# The response has no body: print the status.
curl -sS --fail-with-body -X DELETE "$SCRIP_URL/tokens/$TOKEN_ID" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -w "deleted $TOKEN_ID: %{http_code}\n"

# operation: list_tokens
# For the next page, add &start= and the value of pagination.next.
curl -sS --fail-with-body "$SCRIP_URL/v2/tokens?metadata.customer=7&size=20" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: search_tokens
# For the next page, add the value of pagination.next to the body as start.
curl -sS --fail-with-body "$SCRIP_URL/v2/tokens/search" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/json" \
  -d '{"query": "metadata.customer:7", "size": 20}'

# operation: search_tokens_v1
# Deprecated: use /v2/tokens/search.
curl -sS --fail-with-body "$SCRIP_URL/tokens/search" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/json" \
  -d '{"query": "metadata.customer:7", "page": 1}'

# operation: tokenize
# Each plain value and each object with a type becomes a token.
curl -sS --fail-with-body "$SCRIP_URL/tokenize" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "name": "Ada Lovelace",
    "card": {"type": "card", "data": {"number": "4242424242424242"}}
  }'

# operation: detokenize
curl -sS --fail-with-body "$SCRIP_URL/detokenize" \
  -H "BT-API-KEY: $SCRIP_KEY" \
  -H "Content-Type: application/json" \
  -d @- <<BODY
{
  "number": "{{ $TOKEN_ID | json: '\$.number' }}",
  "last4": "{{ $TOKEN_ID | json: '\$.number' | last4 }}"
}
BODY
