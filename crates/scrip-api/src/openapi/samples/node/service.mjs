// Samples of the tag Service. One section for each operation: see CONTRIBUTING.md.

// operation: healthz
// The client library has no method for this operation.
const { SCRIP_URL } = process.env;
const response = await fetch(`${SCRIP_URL}/healthz`);
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
console.log(await response.json());

// operation: readyz
// The client library has no method for this operation.
const { SCRIP_URL } = process.env;
const response = await fetch(`${SCRIP_URL}/readyz`);
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
console.log(await response.json());

// operation: ping
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const client = new BasisTheoryClient({ apiKey: "", environment: process.env.SCRIP_URL });

await client.webhooks.ping();
console.log("reachable");

// operation: get_openapi
// The client library has no method for this operation.
const { SCRIP_URL } = process.env;
const response = await fetch(`${SCRIP_URL}/openapi.json`);
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
const { info, paths } = await response.json();
console.log(info.title, info.version);
for (const path of Object.keys(paths)) console.log(path);

// operation: get_root
// The client library has no method for this operation.
const { SCRIP_URL } = process.env;
const response = await fetch(`${SCRIP_URL}/`, { redirect: "manual" });
if (response.status !== 302) throw new Error(`${response.status} ${await response.text()}`);
console.log(response.status, response.headers.get("Location"));

// operation: get_docs
// The client library has no method for this operation.
import { writeFile } from "node:fs/promises";

const { SCRIP_URL } = process.env;
const response = await fetch(`${SCRIP_URL}/docs`);
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
const page = await response.text();
await writeFile("docs.html", page);
console.log(`docs.html: ${page.length} characters of ${response.headers.get("Content-Type")}`);

// operation: get_docs_style
// The client library has no method for this operation.
import { writeFile } from "node:fs/promises";

const { SCRIP_URL } = process.env;
const response = await fetch(`${SCRIP_URL}/docs/style.css`);
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
const style = await response.text();
await writeFile("style.css", style);
console.log(`style.css: ${style.length} characters of ${response.headers.get("Content-Type")}`);
