// Tokens through the official Node client, unmodified.

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

test("card details are returned", async () => {
  const { card } = await privately.tokens.create({ type: "card", data: CARD });
  assert.deepEqual(card, {
    bin: "42424242",
    last4: "4242",
    expirationMonth: 12,
    expirationYear: 2030,
    brand: "visa",
    funding: "credit",
    // Null in the response: unknown.
    authentication: undefined,
    issuerCountry: { alpha2: "US", name: "United States", numeric: "840" },
  });
  const french = (await privately.tokens.create({ type: "card_number", data: "4150580996517927" })).card;
  assert.equal(french.authentication, "sca_required");
  assert.equal(french.issuerCountry.alpha2, "FR");
  assert.deepEqual(french.additional, [
    { brand: "cartes-bancaires", funding: "credit", authentication: "sca_required" },
  ]);
  const token = await privately.tokens.create({ type: "network_token", data: { number: "378282246310005" } });
  assert.equal(token.networkToken.brand, "american-express");
});

test("tokens can be created, read, updated and deleted", async () => {
  const token = await privately.tokens.create({
    type: "card",
    data: CARD,
    metadata: { customer: "7" },
    containers: ["/pci/high/"],
    searchIndexes: ["{{ data.number | last4 }}"],
    fingerprintExpression: "{{ data.number }}",
    mask: { number: "{{ data.number, reveal_last: 4 }}" },
    expiresAt: "2090-08-27T02:23:57+00:00",
    deduplicateToken: false,
  });
  assert.equal(token.tenantId, vault.tenant_id);
  assert.equal(token.type, "card");
  assert.deepEqual(token.data, CARD);
  assert.equal(token.card.bin, "42424242");
  assert.equal(token.card.last4, "4242");
  assert.deepEqual(token.metadata, { customer: "7" });
  assert.deepEqual(token.searchIndexes, ["{{ data.number | last4 }}"]);
  assert.equal(new Date(token.expiresAt).toISOString(), "2090-08-27T02:23:57.000Z");

  const found = await privately.tokens.get(token.id);
  assert.deepEqual(found.data, CARD);

  const patch = { data: { expiration_year: 2031 }, metadata: { customer: null, fresh: "x" } };
  const updated = await privately.tokens.update(token.id, patch);
  assert.equal(updated.data.expiration_year, 2031);
  assert.equal(updated.data.number, CARD.number);
  assert.deepEqual(updated.metadata, { fresh: "x" });
  assert.equal(updated.modifiedBy, token.createdBy);

  await privately.tokens.delete(token.id);
  await assert.rejects(privately.tokens.get(token.id), BasisTheory.NotFoundError);
});

test("repeated create with an idempotency key is replayed", async () => {
  const idempotencyKey = randomUUID();
  const first = await privately.tokens.create({ type: "token", data: "once" }, { idempotencyKey });
  const again = await privately.tokens.create({ type: "token", data: "twice" }, { idempotencyKey });
  assert.deepEqual(again, first);
  const patch = { idempotencyKey: randomUUID() };
  const one = await privately.tokens.update(first.id, { data: "patched" }, patch);
  const two = await privately.tokens.update(first.id, { data: "ignored" }, patch);
  assert.deepEqual(two, one);
  assert.equal((await privately.tokens.get(first.id)).data, "patched");
});

test("public key gets masked data only", async () => {
  const token = await publicly.tokens.create({ type: "card", data: CARD });
  assert.equal(token.data.number, "XXXXXXXXXXXX4242");
  assert.equal(token.data.cvc, undefined);
  await assert.rejects(publicly.tokens.get(token.id), BasisTheory.ForbiddenError);
});

test("duplicate create returns the existing token", async () => {
  const data = { number: "5555555555554444" };
  const first = await privately.tokens.create({ type: "card", data });
  const again = await privately.tokens.create({ type: "card", data, deduplicateToken: true });
  assert.equal(again.id, first.id);
  assert.equal(again.extras.deduplicated, true);
});

test("API errors throw the error classes of the client", async () => {
  const bad = { type: "card", data: { number: "4242424242424241" } };
  await assert.rejects(privately.tokens.create(bad), (error) => {
    assert.ok(error instanceof BasisTheory.BadRequestError);
    assert.ok("data.number" in error.body.errors);
    assert.ok(!JSON.stringify(error.body).includes(bad.data.number));
    return true;
  });
  await assert.rejects(vault.client("key_wrong").tokens.get("x"), BasisTheory.UnauthorizedError);
  await privately.tokens.create({ id: "node-taken", type: "token", data: 1 });
  const taken = privately.tokens.create({ id: "node-taken", type: "token", data: 2 });
  await assert.rejects(taken, BasisTheory.ConflictError);
});
