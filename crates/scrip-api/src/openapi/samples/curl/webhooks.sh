# Samples of the tag Webhooks. One section for each operation: see CONTRIBUTING.md.

# operation: list_webhooks
# To get the next page, add start= and the next of this page.
curl -sS --fail-with-body "$SCRIP_URL/webhooks?size=100" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: create_webhook
# Store the secret of the response: no other response contains it.
curl -sS --fail-with-body "$SCRIP_URL/webhooks" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "name": "Orders",
    "url": "https://shop.example/webhooks/scrip",
    "events": ["token.created", "token.deleted"],
    "notify_email": "ops@shop.example"
  }'

# operation: list_webhook_event_types
curl -sS --fail-with-body "$SCRIP_URL/webhooks/event-types" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: get_webhook
curl -sS --fail-with-body "$SCRIP_URL/webhooks/$WEBHOOK_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: update_webhook
# Replaces all attributes. Without status, the status stays.
curl -sS --fail-with-body -X PUT "$SCRIP_URL/webhooks/$WEBHOOK_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "name": "Orders and refunds",
    "url": "https://shop.example/webhooks/v2",
    "events": ["token.created"],
    "status": "disabled"
  }'

# operation: delete_webhook
# The response has no body: print the status.
curl -sS --fail-with-body -X DELETE "$SCRIP_URL/webhooks/$WEBHOOK_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -w "deleted $WEBHOOK_ID: %{http_code}\n"

# operation: rotate_webhook_secret
# The previous secret stays valid for 24 hours.
curl -sS --fail-with-body -X POST "$SCRIP_URL/webhooks/$WEBHOOK_ID/secret" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: list_webhook_deliveries
# To get the next page, add start= and the next of this page.
curl -sS --fail-with-body "$SCRIP_URL/webhooks/$WEBHOOK_ID/deliveries?size=100" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: test_webhook
curl -sS --fail-with-body -X POST "$SCRIP_URL/webhooks/$WEBHOOK_ID/test" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: replay_webhook_deliveries
# Repeats all events since this time, with the same ids.
curl -sS --fail-with-body "$SCRIP_URL/webhooks/$WEBHOOK_ID/replay" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -H "Content-Type: application/json" \
  -d '{"from": "2026-11-01T00:00:00+00:00"}'

# operation: get_webhook_key
curl -sS --fail-with-body "$SCRIP_URL/.well-known/webhooks.v1.key"
