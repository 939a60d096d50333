# Samples of the tag Connections. One section for each operation: see CONTRIBUTING.md.

# operation: list_connection_formulas
curl -sS --fail-with-body "$SCRIP_URL/orchestration/connection_formulas" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: list_connection_formulas_2
curl -sS --fail-with-body -X POST "$SCRIP_URL/orchestration/connection_formulas" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: list_connection_formulas_3
curl -sS --fail-with-body "$SCRIP_URL/orchestration/connection/formulas" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: list_connection_formulas_4
curl -sS --fail-with-body -X POST "$SCRIP_URL/orchestration/connection/formulas" \
  -H "BT-API-KEY: $SCRIP_KEY"
