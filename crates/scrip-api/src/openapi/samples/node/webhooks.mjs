// Samples of the tag Webhooks. One section for each operation: see CONTRIBUTING.md.

// operation: list_webhooks
// The client library reads the first page: 20 webhooks.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const webhooks = await client.webhooks.list();
for (const webhook of webhooks.data) console.log(webhook.id, webhook.name);

// operation: create_webhook
// Store the secret of the response: no other response contains it.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const webhook = await client.webhooks.create({
  name: "Orders",
  url: "https://shop.example/webhooks/scrip",
  events: ["token.created", "token.deleted"],
  notifyEmail: "ops@shop.example",
});
console.log(webhook.id, webhook.name, webhook.secret);

// operation: list_webhook_event_types
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

console.log(JSON.stringify(await client.webhooks.events.list()));

// operation: get_webhook
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, WEBHOOK_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const webhook = await client.webhooks.get(WEBHOOK_ID);
console.log(webhook.id, webhook.name, webhook.url);

// operation: update_webhook
// Replaces all attributes. The status stays.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, WEBHOOK_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const webhook = await client.webhooks.update(WEBHOOK_ID, {
  name: "Orders and refunds",
  url: "https://shop.example/webhooks/v2",
  events: ["token.created"],
});
console.log(webhook.id, webhook.name, webhook.url);

// operation: delete_webhook
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, WEBHOOK_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

await client.webhooks.delete(WEBHOOK_ID);
console.log("deleted", WEBHOOK_ID);

// operation: rotate_webhook_secret
// The client library has no method for this operation. The previous secret stays valid for 24 hours.
const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, WEBHOOK_ID } = process.env;
const response = await fetch(`${SCRIP_URL}/webhooks/${WEBHOOK_ID}/secret`, {
  method: "POST",
  headers: { "BT-API-KEY": SCRIP_MANAGEMENT_KEY },
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
const webhook = await response.json();
console.log(webhook.id, webhook.secret);

// operation: list_webhook_deliveries
// The client library has no method for this operation.
const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, WEBHOOK_ID } = process.env;
const response = await fetch(`${SCRIP_URL}/webhooks/${WEBHOOK_ID}/deliveries?size=100`, {
  headers: { "BT-API-KEY": SCRIP_MANAGEMENT_KEY },
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
const { data } = await response.json();
for (const delivery of data) console.log(delivery.event_id, delivery.event_type, delivery.status);

// operation: test_webhook
// The client library has no method for this operation.
const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, WEBHOOK_ID } = process.env;
const response = await fetch(`${SCRIP_URL}/webhooks/${WEBHOOK_ID}/test`, {
  method: "POST",
  headers: { "BT-API-KEY": SCRIP_MANAGEMENT_KEY },
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
const delivery = await response.json();
console.log(delivery.event_id, delivery.event_type, delivery.status);

// operation: replay_webhook_deliveries
// The client library has no method for this operation. Repeats all events since this time, with the same ids.
const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, WEBHOOK_ID } = process.env;
const response = await fetch(`${SCRIP_URL}/webhooks/${WEBHOOK_ID}/replay`, {
  method: "POST",
  headers: { "BT-API-KEY": SCRIP_MANAGEMENT_KEY, "Content-Type": "application/json" },
  body: JSON.stringify({ from: "2026-11-01T00:00:00+00:00" }),
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
const { replayed } = await response.json();
console.log("replayed", replayed);

// operation: get_webhook_key
// The client library has no method for this operation.
const { SCRIP_URL } = process.env;
const response = await fetch(`${SCRIP_URL}/.well-known/webhooks.v1.key`);
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
console.log(await response.text());
