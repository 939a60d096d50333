// Token intents and card details through the official Node client.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { startVault } from "./vault.js";

const CARD = { number: "4242424242424242", expiration_month: 12, expiration_year: 2030, cvc: "123" };

let vault, client;

before(async () => {
  vault = await startVault();
  client = vault.client("private");
});

after(async () => {
  assert.equal(await vault.stop(), 0);
});

test("token intents can be created, read and converted", async () => {
  const intent = await vault.client("public").tokenIntents.create({ type: "card", data: CARD });
  assert.equal(intent.card.brand, "visa");
  assert.equal(intent.card.last4, "4242");
  assert.ok(intent.expiresAt > intent.createdAt);
  const found = await client.tokenIntents.get(intent.id);
  assert.deepEqual(found.card, intent.card);
  const token = await client.tokens.create({ tokenIntentId: intent.id });
  assert.equal(token.card.brand, "visa");
  assert.equal(token.data.number, CARD.number);
  assert.equal(token.data.cvc, undefined);
  await assert.rejects(client.tokens.create({ tokenIntentId: intent.id }), { statusCode: 400 });
});

test("deleted token intent no longer exists", async () => {
  const intent = await client.tokenIntents.create({ type: "card", data: CARD });
  await client.tokenIntents.delete(intent.id);
  await assert.rejects(client.tokenIntents.get(intent.id), { statusCode: 404 });
});
