# Samples of the tag Applications. One section for each operation: see CONTRIBUTING.md.

# operation: list_applications
curl -sS --fail-with-body "$SCRIP_URL/applications?type=private&page=1&size=100" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: create_application
# The response is the only one that shows the key of the application.
curl -sS --fail-with-body "$SCRIP_URL/applications" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "name": "Checkout page",
    "type": "public",
    "permissions": ["token:create"],
    "origins": ["https://shop.example"]
  }'

# operation: get_application_by_key
curl -sS --fail-with-body "$SCRIP_URL/applications/key" \
  -H "BT-API-KEY: $SCRIP_KEY"

# operation: get_application
curl -sS --fail-with-body "$SCRIP_URL/applications/$APPLICATION_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: update_application
# Replaces name, permissions and rules.
curl -sS --fail-with-body -X PUT "$SCRIP_URL/applications/$APPLICATION_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -H "Content-Type: application/json" \
  -d '{
    "name": "Fraud checks",
    "rules": [
      {
        "description": "Masked cards",
        "priority": 1,
        "container": "/pci/",
        "transform": "mask",
        "permissions": ["token:read"]
      }
    ]
  }'

# operation: delete_application
# The response has no body: print the status.
curl -sS --fail-with-body -X DELETE "$SCRIP_URL/applications/$APPLICATION_ID" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -w "deleted $APPLICATION_ID: %{http_code}\n"

# operation: list_permissions
curl -sS --fail-with-body "$SCRIP_URL/permissions?application_type=private" \
  -H "BT-API-KEY: $SCRIP_KEY"
