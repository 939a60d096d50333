// Samples of the tag API keys. One section for each operation: see CONTRIBUTING.md.

// operation: regenerate_application_key
// Removed: the response is always 410. Create a second key and delete the old one.
// The client library has no method for this operation.
const { SCRIP_URL, SCRIP_KEY, APPLICATION_ID } = process.env;
const response = await fetch(`${SCRIP_URL}/applications/${APPLICATION_ID}/regenerate`, {
  method: "POST",
  headers: { "BT-API-KEY": SCRIP_KEY },
});
if (response.status !== 410) throw new Error(`${response.status} ${await response.text()}`);
console.log(response.status, (await response.json()).detail);

// operation: list_api_keys
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, APPLICATION_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const keys = await client.applicationKeys.list(APPLICATION_ID);
for (const key of keys) console.log(key.id, key.createdAt);

// operation: create_api_key
// The response is the only one that shows the key.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, APPLICATION_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const key = await client.applicationKeys.create(APPLICATION_ID);
console.log(key.id, key.key);

// operation: get_api_key
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, APPLICATION_ID, API_KEY_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const key = await client.applicationKeys.get(APPLICATION_ID, API_KEY_ID);
console.log(key.id, key.createdAt);

// operation: delete_api_key
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, APPLICATION_ID, API_KEY_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

await client.applicationKeys.delete(APPLICATION_ID, API_KEY_ID);
console.log("deleted", API_KEY_ID);
