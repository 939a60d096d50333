// Samples of the tag Logs. One section for each operation: see CONTRIBUTING.md.

// operation: list_logs
// The iterator fetches the next page when it needs one.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, TOKEN_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const logs = await client.logs.list({ entityType: "token", entityId: TOKEN_ID, size: 20 });
for await (const log of logs) console.log(log.createdAt, log.operation, log.entityId);

// operation: list_log_entity_types
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const types = await client.logs.getEntityTypes();
for (const { value, displayName } of types) console.log(value, displayName);
