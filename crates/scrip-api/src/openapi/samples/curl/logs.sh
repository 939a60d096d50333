# Samples of the tag Logs. One section for each operation: see CONTRIBUTING.md.

# operation: list_logs
# For the next page, add &start= and the value of pagination.next.
curl -sS --fail-with-body "$SCRIP_URL/logs?entity_type=token&entity_id=$TOKEN_ID&size=20" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: list_log_entity_types
curl -sS --fail-with-body "$SCRIP_URL/logs/entity-types" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"
