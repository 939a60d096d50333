// Samples of the tag Token intents. One section for each operation: see CONTRIBUTING.md.

// operation: create_token_intent
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const intent = await client.tokenIntents.create({
  type: "card",
  data: {
    number: "4242424242424242",
    expiration_month: 12,
    expiration_year: 2031,
    cvc: "123",
  },
});
console.log(intent.id, intent.card.last4, intent.expiresAt);

// operation: get_token_intent
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, TOKEN_INTENT_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

const intent = await client.tokenIntents.get(TOKEN_INTENT_ID);
console.log(intent.id, intent.card.last4, intent.expiresAt);

// operation: delete_token_intent
import { BasisTheoryClient } from "@basis-theory/node-sdk";

const { SCRIP_URL, SCRIP_KEY, TOKEN_INTENT_ID } = process.env;
const client = new BasisTheoryClient({ apiKey: SCRIP_KEY, environment: SCRIP_URL });

await client.tokenIntents.delete(TOKEN_INTENT_ID);
console.log("deleted", TOKEN_INTENT_ID);
