// The audit trail and the usage report through the official Node client.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { startVault } from "./vault.js";

const COUNT = 30;

let vault, management;

before(async () => {
  vault = await startVault();
  management = vault.client("management");
  const client = vault.client("private");
  for (let at = 0; at < COUNT; at += 1) {
    await client.tokens.create({ id: `recorded-${at}`, type: "token", data: `value-${at}` });
  }
  await client.tokens.get("recorded-7");
});

after(async () => {
  assert.equal(await vault.stop(), 0);
});

async function all(request) {
  const found = [];
  for await (const log of await management.logs.list(request)) found.push(log);
  return found;
}

test("iterator returns all logs of all pages", async () => {
  const found = (await all({ entityType: "token", size: 7 })).map((log) => log.id);
  assert.equal(found.length, COUNT + 1);
  assert.equal(new Set(found).size, found.length);
  const again = await all({ entityType: "token", size: 100, page: 1 });
  assert.deepEqual(found, again.map((log) => log.id));
});

test("log filters work", async () => {
  const [read, created] = await all({ entityType: "token", entityId: "recorded-7" });
  assert.deepEqual([created.operation, read.operation], ["create_token", "get_token"]);
  assert.equal(created.tenantId, vault.tenant_id);
  assert.equal(created.message, "Create token: the token was created.");
  const [from, to] = [created.createdAt, new Date(created.createdAt.getTime() + 1000)];
  const there = await all({ entityId: "recorded-7", startDate: from, endDate: to });
  assert.ok(there.some((log) => log.id === created.id));
  assert.deepEqual(await all({ entityId: "recorded-7", endDate: from }), []);
  await assert.rejects(async () => all({ entityType: "robot" }), { statusCode: 400 });
  await assert.rejects(async () => vault.client("private").logs.list(), { statusCode: 403 });
});

test("entity types are listed", async () => {
  const types = await management.logs.getEntityTypes();
  assert.ok(types.some((it) => it.displayName === "Token" && it.value === "token"));
});

test("usage report counts tokens", async () => {
  const report = await management.tenants.self.getUsageReports();
  assert.equal(report.totalTokens, COUNT);
});
