// Tokenize and detokenize through the official Node client.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";

import { BasisTheory } from "@basis-theory/node-sdk";

import { startVault } from "./vault.js";

const CARD = { number: "4242424242424242", expiration_month: 12, expiration_year: 2030, cvc: "123" };

let vault, privately, publicly;

before(async () => {
  vault = await startVault();
  privately = vault.client("private");
  publicly = vault.client("public");
});

after(async () => {
  assert.equal(await vault.stop(), 0);
});

test("tokenized values can be detokenized", async () => {
  const body = { name: "Jo", card: { type: "card", data: CARD }, tags: ["a", null, {}], since: 1999 };
  const created = await privately.tokens.tokenize(body);
  assert.deepEqual(created.card.data, CARD);
  assert.deepEqual(created.tags.slice(1), [null, {}]);
  assert.equal((await privately.tokens.get(created.name)).data, "Jo");
  const back = await privately.tokens.detokenize({
    name: `{{ ${created.name} }}`,
    card: `{{ ${created.card.id} }}`,
    since: `{{ ${created.since} }}`,
    text: `{{ ${created.name} }}, card {{ ${created.card.id} | json: '$.number' | last4 }}`,
    type: `{{ token: ${created.card.id} | json: '$.type' }}`,
  });
  assert.deepEqual(back, { name: "Jo", card: CARD, since: 1999, text: "Jo, card 4242", type: "card" });
});

test("repeated tokenize is replayed", async () => {
  const idempotencyKey = randomUUID();
  const body = { card: { type: "card", data: CARD }, name: "Jo" };
  const first = await privately.tokens.tokenize(body, { idempotencyKey });
  const again = await privately.tokens.tokenize({ other: 1 }, { idempotencyKey });
  delete first.card.data.cvc;
  assert.deepEqual(again, first);
});

test("public key tokenizes but cannot detokenize", async () => {
  const created = await publicly.tokens.tokenize({ card: { type: "card", data: CARD }, name: "Jo" });
  assert.equal(created.card.data.number, "XXXXXXXXXXXX4242");
  const read = publicly.tokens.detokenize({ name: `{{ ${created.name} }}` });
  await assert.rejects(read, (error) => error.statusCode === 403);
});

test("invalid requests throw the error classes of the client", async () => {
  const bad = { a: [{ type: "card", data: { number: "1" } }] };
  await assert.rejects(privately.tokens.tokenize(bad), (error) => {
    assert.ok(error instanceof BasisTheory.BadRequestError);
    assert.ok("a[0].data.number" in error.body.errors);
    return true;
  });
  const unknown = privately.tokens.detokenize({ a: "{{ unknown }}" });
  await assert.rejects(unknown, (error) => error.statusCode === 400);
});
