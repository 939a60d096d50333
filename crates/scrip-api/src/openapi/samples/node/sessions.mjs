// Samples of the tag Sessions. One section for each operation: see CONTRIBUTING.md.

// operation: create_access_session
// With the key of a public application. Send the nonce to your backend.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_PUBLIC_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_PUBLIC_KEY, environment: SCRIP_URL });

const session = await client.sessions.create();
console.log(session.sessionKey, session.nonce, session.expiresAt);

// operation: authorize_access_session
// With the key of a private application.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, NONCE } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

await client.sessions.authorize({ nonce: NONCE, permissions: ["token:create"] });
console.log("authorized");
