// Samples of the tag Client encryption keys. One section for each operation: see CONTRIBUTING.md.

// operation: list_client_keys
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

for (const key of await client.keys.list()) console.log(key.keyId, key.expiresAt);

// operation: create_client_key
// Publish the public key of the response in your pages and apps. Without expiresAt, the key
// lives for one year.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const key = await client.keys.create();
console.log(key.keyId, key.expiresAt);
console.log(key.publicKeyPem);

// operation: get_client_key
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, CLIENT_KEY_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const key = await client.keys.get(CLIENT_KEY_ID);
console.log(key.keyId, key.expiresAt);

// operation: delete_client_key
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, CLIENT_KEY_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

await client.keys.delete(CLIENT_KEY_ID);
console.log("deleted", CLIENT_KEY_ID);

// operation: get_client_public_key
// The client library has no call for it.
const { SCRIP_URL, SCRIP_KEY, CLIENT_KEY_ID } = process.env;

const url = `${SCRIP_URL}/keys/${CLIENT_KEY_ID}/public-key`;
const response = await fetch(url, { headers: { "BT-API-KEY": SCRIP_KEY } });
const key = await response.json();
console.log(key.public_key_pem);
