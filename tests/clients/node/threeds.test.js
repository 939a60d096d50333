// 3-D Secure sessions through the official Node client.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { setTimeout } from "node:timers/promises";

import { startVault } from "./vault.js";

const PAYMENT = {
  authenticationCategory: "payment",
  authenticationType: "other-payment",
  decoupledChallengeMaxTime: 5,
  purchaseInfo: {
    amount: "8000",
    currency: "826",
    exponent: "2",
    date: "20261109141010",
    transactionType: "purchase",
  },
  merchantInfo: {
    mid: "9876543210001",
    acquirerBin: "000000999",
    name: "A shop",
    categoryCode: "7922",
    countryCode: "826",
  },
  requestorInfo: { id: "1", name: "A shop", url: "https://shop.example" },
  cardholderInfo: { name: "Ada", email: "ada@mail.example" },
};

let vault, client;

before(async () => {
  vault = await startVault();
  client = vault.client("private");
});

after(async () => {
  assert.equal(await vault.stop(), 0);
});

// The server fetches card ranges in the background after its start.
async function session(number, attempts = 100) {
  const data = { number, expiration_month: 12, expiration_year: 2035 };
  const intent = await client.tokenIntents.create({ type: "card", data });
  try {
    return await client.threeds.sessions.create({ type: "merchant", tokenIntentId: intent.id });
  } catch (error) {
    if (attempts === 0 || error.statusCode !== 424 || error.body?.error?.service_status !== "503") throw error;
    await setTimeout(100);
    return session(number, attempts - 1);
  }
}

test("session is authenticated and can be read", async () => {
  const created = await session("5555555555554444");
  assert.equal(created.cardBrand, "Mastercard");
  const authentication = await client.threeds.sessions.authenticate(created.id, PAYMENT);
  assert.equal(authentication.authenticationStatus, "successful");
  assert.equal(authentication.eci, "02");
  const found = await client.threeds.sessions.get(created.id);
  assert.equal(found.authentication.acsTransactionId, authentication.acsTransactionId);
  assert.deepEqual(found.version.availableVersions, ["2.1.0", "2.2.0"]);
});

test("decoupled challenge result can be read", async () => {
  const created = await session("4200000000000011");
  const authentication = await client.threeds.sessions.authenticate(created.id, PAYMENT);
  assert.equal(authentication.authenticationStatus, "decoupled_challenge");
  let result;
  for (let left = 200; result === undefined; left -= 1) {
    try {
      result = await client.threeds.sessions.getChallengeResult(created.id);
    } catch (error) {
      if (left === 0 || error.statusCode !== 404) throw error;
      await setTimeout(100);
    }
  }
  assert.equal(result.authenticationStatus, "rejected");
  assert.equal(result.authenticationStatusReason, "suspected-fraud");
});

test("session can be authenticated only once", async () => {
  const created = await session("4242424242424242");
  await client.threeds.sessions.authenticate(created.id, PAYMENT);
  const again = client.threeds.sessions.authenticate(created.id, PAYMENT);
  await assert.rejects(again, (error) => error.statusCode === 409);
});

test("directory server failure throws an error", async () => {
  const created = await session("4200000000000012");
  const failing = client.threeds.sessions.authenticate(created.id, PAYMENT);
  await assert.rejects(failing, (error) => {
    assert.equal(error.statusCode, 424);
    assert.equal(error.body.error.session_id, created.id);
    return true;
  });
});
