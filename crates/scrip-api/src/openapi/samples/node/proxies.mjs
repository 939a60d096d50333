// Samples of the tag Proxies. One section for each operation: see CONTRIBUTING.md.

// operation: list_proxies
// `*` stands for any characters of the name. The iterator fetches the next page when it needs one.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const proxies = await client.proxies.list({ name: "charge*", size: 100 });
for await (const proxy of proxies) console.log(proxy.id, proxy.name);

// operation: create_proxy
// The key in the response selects the proxy: send it as BT-PROXY-KEY.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const proxy = await client.proxies.create({
  name: "Charges",
  destinationUrl: "https://psp.example/v1",
  configuration: { secret: "sk_test_1" },
  responseTransforms: [
    {
      type: "mask",
      matcher: "regex",
      expression: '"number":"(\\d+)"',
      replacement: "*",
    },
  ],
});
console.log(proxy.id, proxy.name, proxy.key);

// operation: get_proxy
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, PROXY_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const proxy = await client.proxies.get(PROXY_ID);
console.log(proxy.id, proxy.name, proxy.destinationUrl);

// operation: update_proxy
// Replaces all attributes. Absent attributes get their defaults.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, PROXY_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

const proxy = await client.proxies.update(PROXY_ID, {
  name: "Charges and refunds",
  destinationUrl: "https://psp.example/v2",
});
console.log(proxy.id, proxy.name, proxy.destinationUrl);

// operation: patch_proxy
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, PROXY_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

await client.proxies.patch(PROXY_ID, { configuration: { secret: "sk_test_2" } });
console.log("changed", PROXY_ID);

// operation: delete_proxy
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, PROXY_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_MANAGEMENT_KEY, environment: SCRIP_URL });

await client.proxies.delete(PROXY_ID);
console.log("deleted", PROXY_ID);

// operation: set_proxy_client_certificate
// The client library has no method for this operation.
import { readFile } from "node:fs/promises";

const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, PROXY_ID } = process.env;
const { CERTIFICATE_FILE, PRIVATE_KEY_FILE } = process.env;
const response = await fetch(`${SCRIP_URL}/proxies/${PROXY_ID}/client-certificate`, {
  method: "PUT",
  headers: { "BT-API-KEY": SCRIP_MANAGEMENT_KEY, "Content-Type": "application/json" },
  body: JSON.stringify({
    certificate_pem: await readFile(CERTIFICATE_FILE, "utf8"),
    private_key_pem: await readFile(PRIVATE_KEY_FILE, "utf8"),
  }),
});
if (!response.ok) throw new Error(await response.text());
const certificate = await response.json();
console.log(certificate.subject, certificate.sha256, certificate.not_after);

// operation: delete_proxy_client_certificate
// The client library has no method for this operation.
const { SCRIP_URL, SCRIP_MANAGEMENT_KEY, PROXY_ID } = process.env;
const response = await fetch(`${SCRIP_URL}/proxies/${PROXY_ID}/client-certificate`, {
  method: "DELETE",
  headers: { "BT-API-KEY": SCRIP_MANAGEMENT_KEY },
});
if (!response.ok) throw new Error(await response.text());
console.log("deleted the certificate of", PROXY_ID);

// operation: invoke_proxy_get
// Asks the destination. Expressions in header values work for every method.
const { SCRIP_URL, SCRIP_KEY, PROXY_KEY } = process.env;
const response = await fetch(`${SCRIP_URL}/proxy`, {
  method: "GET",
  headers: { "BT-API-KEY": SCRIP_KEY, "BT-PROXY-KEY": PROXY_KEY },
});
if (!response.ok) throw new Error(await response.text());
console.log(JSON.stringify(await response.json()));

// operation: invoke_proxy_post
// The vault replaces the expression: the destination gets the number, and this program never has it.
const { SCRIP_URL, SCRIP_KEY, PROXY_KEY, TOKEN_ID } = process.env;
const response = await fetch(`${SCRIP_URL}/proxy`, {
  method: "POST",
  headers: {
    "BT-API-KEY": SCRIP_KEY,
    "BT-PROXY-KEY": PROXY_KEY,
    "Content-Type": "application/json",
  },
  body: JSON.stringify({ amount: 1500, number: `{{ ${TOKEN_ID} | json: '$.number' }}` }),
});
if (!response.ok) throw new Error(await response.text());
console.log(JSON.stringify(await response.json()));

// operation: invoke_proxy_put
// Replaces an object of the destination.
const { SCRIP_URL, SCRIP_KEY, PROXY_KEY, TOKEN_ID } = process.env;
const response = await fetch(`${SCRIP_URL}/proxy`, {
  method: "PUT",
  headers: {
    "BT-API-KEY": SCRIP_KEY,
    "BT-PROXY-KEY": PROXY_KEY,
    "Content-Type": "application/json",
  },
  body: JSON.stringify({ amount: 1500, number: `{{ ${TOKEN_ID} | json: '$.number' }}` }),
});
if (!response.ok) throw new Error(await response.text());
console.log(JSON.stringify(await response.json()));

// operation: invoke_proxy_patch
// Changes an object of the destination.
const { SCRIP_URL, SCRIP_KEY, PROXY_KEY, TOKEN_ID } = process.env;
const response = await fetch(`${SCRIP_URL}/proxy`, {
  method: "PATCH",
  headers: {
    "BT-API-KEY": SCRIP_KEY,
    "BT-PROXY-KEY": PROXY_KEY,
    "Content-Type": "application/json",
  },
  body: JSON.stringify({ amount: 1500, number: `{{ ${TOKEN_ID} | json: '$.number' }}` }),
});
if (!response.ok) throw new Error(await response.text());
console.log(JSON.stringify(await response.json()));

// operation: invoke_proxy_delete
// Deletes an object of the destination.
const { SCRIP_URL, SCRIP_KEY, PROXY_KEY } = process.env;
const response = await fetch(`${SCRIP_URL}/proxy`, {
  method: "DELETE",
  headers: { "BT-API-KEY": SCRIP_KEY, "BT-PROXY-KEY": PROXY_KEY },
});
if (!response.ok) throw new Error(await response.text());
console.log(JSON.stringify(await response.json()));
