// Samples of the tag Tokens. One section for each operation: see CONTRIBUTING.md.

// operation: list_tokens_v1
// Deprecated: use client.tokens.listV2. The client library has no method for this operation.
const { SCRIP_URL, SCRIP_KEY } = process.env;
const response = await fetch(`${SCRIP_URL}/tokens?metadata.customer=7&page=1&size=20`, {
  headers: { "BT-API-KEY": SCRIP_KEY },
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
const { data } = await response.json();
for (const token of data) console.log(token.id, token.type, token.metadata);

// operation: create_token
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const token = await client.tokens.create({
  type: "card",
  data: {
    number: "4242424242424242",
    expiration_month: 12,
    expiration_year: 2031,
    cvc: "123",
  },
  metadata: { customer: "7" },
});
console.log(token.id, token.card.brand, token.card.last4);

// operation: get_token
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, TOKEN_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const token = await client.tokens.get(TOKEN_ID);
console.log(token.id, token.data);

// operation: update_token
// A merge patch: null removes an attribute.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, TOKEN_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const token = await client.tokens.update(TOKEN_ID, {
  data: { expiration_year: 2032 },
  metadata: { customer: null },
});
console.log(token.id, token.data);

// operation: delete_token
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, TOKEN_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

await client.tokens.delete(TOKEN_ID);
console.log("deleted", TOKEN_ID);

// operation: list_tokens
// The iterator fetches the next page when it needs one.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const tokens = await client.tokens.listV2({ metadata: { customer: "7" }, size: 20 });
for await (const token of tokens) console.log(token.id, token.type, token.metadata);

// operation: search_tokens
// The iterator fetches the next page when it needs one.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const tokens = await client.tokens.searchV2({ query: "metadata.customer:7", size: 20 });
for await (const token of tokens) console.log(token.id, token.type, token.metadata);

// operation: search_tokens_v1
// Deprecated: use client.tokens.searchV2. The client library has no method for this operation.
const { SCRIP_URL, SCRIP_KEY } = process.env;
const response = await fetch(`${SCRIP_URL}/tokens/search`, {
  method: "POST",
  headers: { "BT-API-KEY": SCRIP_KEY, "Content-Type": "application/json" },
  body: JSON.stringify({ query: "metadata.customer:7", page: 1 }),
});
if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
const { data } = await response.json();
for (const token of data) console.log(token.id, token.type, token.metadata);

// operation: tokenize
// Each plain value and each object with a type becomes a token.
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const tokens = await client.tokens.tokenize({
  name: "Ada Lovelace",
  card: { type: "card", data: { number: "4242424242424242" } },
});
console.log(tokens.name, tokens.card.id, tokens.card.type);

// operation: detokenize
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, TOKEN_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const values = await client.tokens.detokenize({
  number: `{{ ${TOKEN_ID} | json: '$.number' }}`,
  last4: `{{ ${TOKEN_ID} | json: '$.number' | last4 }}`,
});
console.log(values);
