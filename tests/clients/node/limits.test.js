// Rate limits through the official Node client.

import assert from "node:assert/strict";
import { test } from "node:test";

import { BasisTheoryError } from "@basis-theory/node-sdk";

import { startVault } from "./vault.js";

test("rate limited request throws the error class of the client", async () => {
  const vault = await startVault("5/1h");
  const client = vault.client("private");
  for (let at = 0; at < 5; at += 1) await client.permissions.list();
  await assert.rejects(client.permissions.list(), (error) => {
    assert.ok(error instanceof BasisTheoryError);
    assert.equal(error.statusCode, 429);
    assert.equal(error.body.status, 429);
    assert.match(error.body.detail, /test_tenant/);
    assert.equal(error.rawResponse.headers.get("ratelimit-limit"), "5");
    assert.ok(Number(error.rawResponse.headers.get("x-ratelimit-reset")) > Date.now() / 1000);
    return true;
  });
  assert.equal(await vault.stop(), 0);
});

test("client waits for the reported time and retries", async () => {
  const vault = await startVault("3/1s");
  const client = vault.client("private", 1);
  for (let at = 0; at < 7; at += 1) await client.permissions.list();
  assert.equal(await vault.stop(), 0);
});
