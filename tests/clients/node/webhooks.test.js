// Webhooks through the official Node client.

import assert from "node:assert/strict";
import { after, before, beforeEach, test } from "node:test";

import { BasisTheory } from "@basis-theory/node-sdk";

import { startVault } from "./vault.js";

const { BadRequestError, ForbiddenError, NotFoundError } = BasisTheory;
const URL = "https://shop.example/webhooks";
const EVENTS = ["token.created", "token.deleted"];

let vault, management;

before(async () => {
  vault = await startVault();
  management = vault.client("management");
});

// A tenant has few webhooks: each test removes those of the tests before.
beforeEach(async () => {
  for (const { id } of (await management.webhooks.list()).data) await management.webhooks.delete(id);
});

after(async () => {
  assert.equal(await vault.stop(), 0);
});

test("webhooks can be created, read, updated and deleted without a pause", async () => {
  const created = await management.webhooks.create({
    name: "Orders",
    url: URL,
    events: EVENTS,
    notifyEmail: "ops@shop.example",
  });
  assert.equal(created.tenantId, vault.tenant_id);
  assert.deepEqual([created.name, created.url, created.status], ["Orders", URL, "enabled"]);
  assert.deepEqual([created.events, created.notifyEmail], [EVENTS, "ops@shop.example"]);
  assert.ok(created.secret.startsWith("whsec_"));
  const { secret, ...withoutSecret } = created;
  assert.deepEqual(await management.webhooks.get(created.id), withoutSecret);

  const replacement = { name: "Refunds", url: `${URL}/v2`, events: ["token.read"] };
  const updated = await management.webhooks.update(created.id, replacement);
  assert.deepEqual([updated.id, updated.name, updated.events], [created.id, "Refunds", ["token.read"]]);
  assert.equal(updated.notifyEmail, undefined);
  assert.deepEqual((await management.webhooks.list()).data, [updated]);

  await management.webhooks.delete(created.id);
  await assert.rejects(management.webhooks.get(created.id), NotFoundError);
  await assert.rejects(management.webhooks.delete(created.id), NotFoundError);
});

test("the sixth webhook and an unknown event are bad requests", async () => {
  for (let at = 0; at < 5; at++) await management.webhooks.create({ name: `webhook ${at}`, url: URL, events: EVENTS });
  const page = await management.webhooks.list();
  assert.deepEqual([page.data.length, page.pagination.pageSize], [5, 20]);
  const sixth = { name: "sixth", url: URL, events: EVENTS };
  await assert.rejects(management.webhooks.create(sixth), BadRequestError);
  const unknown = { name: "x", url: URL, events: ["token.fly"] };
  await assert.rejects(management.webhooks.update(page.data[0].id, unknown), BadRequestError);
});

test("event types are listed, and ping needs no permission", async () => {
  const listed = await management.webhooks.events.list();
  assert.ok(listed.includes("token.created") && listed.includes("3ds.session.created"));
  await management.webhooks.ping();
  await assert.rejects(vault.client("private").webhooks.list(), ForbiddenError);
});
