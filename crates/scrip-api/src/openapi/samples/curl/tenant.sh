# Samples of the tag Tenant. One section for each operation: see CONTRIBUTING.md.

# operation: get_tenant
curl -sS --fail-with-body "$SCRIP_URL/tenants/self" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: update_tenant
curl -sS --fail-with-body -X PUT "$SCRIP_URL/tenants/self" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -H "Content-Type: application/json" \
  -d '{"name": "Acme", "settings": {"deduplicate_tokens": "false"}}'

# operation: delete_tenant
# Deletes everything in the tenant. The response has no body: print the status.
curl -sS --fail-with-body -X DELETE "$SCRIP_URL/tenants/self" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY" \
  -w "deleted the tenant: %{http_code}\n"

# operation: get_tenant_quotas
curl -sS --fail-with-body "$SCRIP_URL/tenants/self/quotas" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"

# operation: get_tenant_usage
curl -sS --fail-with-body "$SCRIP_URL/tenants/self/reports/usage" \
  -H "BT-API-KEY: $SCRIP_MANAGEMENT_KEY"
