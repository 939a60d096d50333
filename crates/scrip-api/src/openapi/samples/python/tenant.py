# Samples of the tag Tenant. One section for each operation: see CONTRIBUTING.md.

# operation: get_tenant
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

tenant = client.tenants.self_.get()
print(tenant.id, tenant.name, tenant.settings)

# operation: update_tenant
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

tenant = client.tenants.self_.update(name="Acme", settings={"deduplicate_tokens": "false"})
print(tenant.id, tenant.name, tenant.settings)

# operation: delete_tenant
# Deletes everything in the tenant.
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

client.tenants.self_.delete()
print("deleted the tenant")

# operation: get_tenant_quotas
# The client library has no method for this operation.
import json
import os
import urllib.request

request = urllib.request.Request(
    os.environ["SCRIP_URL"] + "/tenants/self/quotas",
    headers={"BT-API-KEY": os.environ["SCRIP_MANAGEMENT_KEY"]},
)
with urllib.request.urlopen(request) as response:
    print(json.load(response))

# operation: get_tenant_usage
import os

from basis_theory import BasisTheory

client = BasisTheory(api_key=os.environ["SCRIP_MANAGEMENT_KEY"], base_url=os.environ["SCRIP_URL"])

usage = client.tenants.self_.get_usage_reports()
print(usage.total_tokens, "tokens")
