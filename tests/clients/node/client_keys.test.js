// Client encryption keys through the official Node client, and data that jose encrypts for them.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { BasisTheory } from "@basis-theory/node-sdk";
import { CompactEncrypt, importJWK } from "jose";

import { startVault } from "./vault.js";

const { BadRequestError, ForbiddenError, NotFoundError } = BasisTheory;
const CARD = { number: "4242424242424242", expiration_month: 12, expiration_year: 2030, cvc: "123" };

let vault, management, privateClient;

before(async () => {
  vault = await startVault();
  management = vault.client("management");
  privateClient = vault.client("private");
});

after(async () => {
  assert.equal(await vault.stop(), 0);
});

// The PEM contains the raw key, not a SubjectPublicKeyInfo.
async function encrypt(key, data) {
  const raw = Buffer.from(key.publicKeyPem.split("\n")[1], "base64");
  const jwk = { kty: "OKP", crv: "X25519", x: raw.toString("base64url") };
  return new CompactEncrypt(Buffer.from(JSON.stringify(data)))
    .setProtectedHeader({ alg: "ECDH-ES", enc: "A256GCM", kid: key.keyId })
    .encrypt(await importJWK(jwk, "ECDH-ES"));
}

test("keys can be created, read, listed and deleted", async () => {
  const expiresAt = new Date(Date.now() + 24 * 60 * 60 * 1000);
  const key = await management.keys.create({ expiresAt });
  assert.match(key.publicKeyPem, /^-----BEGIN PUBLIC KEY-----\n.{44}\n-----END PUBLIC KEY-----$/);
  assert.ok(Math.abs(key.expiresAt - expiresAt) < 1000);
  const read = await management.keys.get(key.keyId);
  assert.deepEqual(read, { keyId: key.keyId, expiresAt: key.expiresAt });
  assert.ok((await management.keys.list()).some((it) => it.keyId === key.keyId));
  await management.keys.delete(key.keyId);
  await assert.rejects(management.keys.get(key.keyId), NotFoundError);
  await assert.rejects(privateClient.keys.list(), ForbiddenError);
});

test("a card that jose encrypts is stored as a token and as an intent", async () => {
  const key = await management.keys.create();
  const encrypted = await encrypt(key, CARD);
  const token = await privateClient.tokens.create({ type: "card", encrypted });
  const read = await privateClient.tokens.get(token.id);
  assert.equal(read.card.last4, "4242");
  const detokenized = await privateClient.tokens.detokenize({ pan: `{{ ${token.id} | json: '$.number' }}` });
  assert.ok(detokenized);
  const intent = await vault.client("public").tokenIntents.create({ type: "card", encrypted });
  // A browser learns nothing about data that it encrypted, or that another page encrypted.
  assert.ok(intent.id);
  assert.equal(intent.card, undefined);
  const tokens = await privateClient.tokens.tokenize({ card: { type: "card", encrypted } });
  assert.equal(tokens.card.card.last4, "4242");
});

test("a deleted key is a bad request", async () => {
  const key = await management.keys.create();
  const encrypted = await encrypt(key, CARD);
  await management.keys.delete(key.keyId);
  await assert.rejects(privateClient.tokens.create({ type: "card", encrypted }), BadRequestError);
});
