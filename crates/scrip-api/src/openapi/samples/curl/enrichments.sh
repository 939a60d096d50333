# Samples of the tag Enrichments. One section for each operation: see CONTRIBUTING.md.

# operation: get_card_details
curl -sS --fail-with-body "$SCRIP_URL/enrichments/card-details?bin=415058" \
  -H "BT-API-KEY: $SCRIP_KEY"
