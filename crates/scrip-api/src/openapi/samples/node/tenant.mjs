// Samples of the tag Tenant. One section for each operation: see CONTRIBUTING.md.

// operation: get_tenant
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const tenant = await client.tenants.self.get();
console.log(tenant.id, tenant.name, tenant.settings);

// operation: update_tenant
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const tenant = await client.tenants.self.update({
  name: "Acme",
  settings: { deduplicate_tokens: "false" },
});
console.log(tenant.id, tenant.name, tenant.settings);

// operation: delete_tenant
// Deletes everything in the tenant.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

await client.tenants.self.delete();
console.log("deleted the tenant");

// operation: get_tenant_quotas
// The client library has no method for this operation.
const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const response = await fetch(`${SCRIP_URL}/tenants/self/quotas`, {
  headers: { "BT-API-KEY": SCRIP_MANAGEMENT_KEY },
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
console.log(await response.json());

// operation: get_tenant_usage
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const usage = await client.tenants.self.getUsageReports();
console.log(usage.totalTokens, "tokens");
