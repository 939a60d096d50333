// Proxies through the official Node client.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { BasisTheory } from "@basis-theory/node-sdk";

import { startVault } from "./vault.js";

const { BadRequestError, ForbiddenError, NotFoundError } = BasisTheory;
const DESTINATION = "https://psp.example/v1";
const MASK = { type: "mask", matcher: "regex", expression: "(\\d+)", replacement: "*" };
const CODE = { code: "module.exports = async (req) => req.args" };

let vault, management;

before(async () => {
  vault = await startVault();
  management = vault.client("management");
});

after(async () => {
  assert.equal(await vault.stop(), 0);
});

async function all(page) {
  const found = [];
  for await (const one of page) found.push(one);
  return found;
}

test("proxies can be created, read, updated, patched and deleted", async () => {
  const created = await management.proxies.create({
    name: "Charges",
    destinationUrl: DESTINATION,
    configuration: { secret: "s3cr3t" },
    requireAuth: false,
    requestTransforms: [{ type: "append_header", options: { location: "X-Shop", value: "7" } }],
    responseTransform: MASK,
  });
  assert.equal(created.tenantId, vault.tenant_id);
  assert.deepEqual([created.name, created.destinationUrl, created.state], ["Charges", DESTINATION, "active"]);
  assert.ok(created.key.length >= 20);
  assert.deepEqual([created.configuration, created.requireAuth], [{ secret: "s3cr3t" }, false]);
  assert.equal(created.requestTransforms[0].options.location, "X-Shop");
  assert.deepEqual(created.responseTransform, MASK);
  assert.deepEqual(await management.proxies.get(created.id), created);

  const replacement = { name: "Refunds", destinationUrl: DESTINATION, requestTransform: CODE };
  const updated = await management.proxies.update(created.id, replacement);
  assert.deepEqual([updated.id, updated.key, updated.name], [created.id, created.key, "Refunds"]);
  assert.equal(updated.requestTransform.code, CODE.code);
  assert.deepEqual([updated.configuration, updated.requireAuth], [undefined, true]);

  await management.proxies.patch(created.id, { configuration: { a: "1" }, name: "Payouts" });
  const patched = await management.proxies.get(created.id);
  assert.deepEqual([patched.name, patched.configuration], ["Payouts", { a: "1" }]);
  assert.equal(patched.requestTransform.code, CODE.code);

  await management.proxies.delete(created.id);
  await assert.rejects(management.proxies.get(created.id), NotFoundError);
});

test("a proxy names its application", async () => {
  const application = await management.applications.create({
    name: "collector",
    type: "private",
    permissions: ["token:create"],
  });
  const created = await management.proxies.create({
    name: "Inbound",
    destinationUrl: DESTINATION,
    application: { id: application.id },
  });
  assert.equal(created.applicationId, application.id);
});

test("the pager returns each proxy once and filters", async () => {
  const created = [];
  for (let at = 0; at < 5; at++) {
    created.push((await management.proxies.create({ name: `paged ${at}`, destinationUrl: DESTINATION })).id);
  }
  const everything = (await all(await management.proxies.list({ size: 2 }))).map((it) => it.id);
  assert.equal(new Set(everything).size, everything.length);
  const named = (await all(await management.proxies.list({ name: "paged*", size: 2 }))).map((it) => it.id);
  assert.deepEqual(named.sort(), created.toSorted());
  const [one] = created;
  assert.deepEqual((await all(await management.proxies.list({ id: one }))).map((it) => it.id), [one]);
});

test("invalid proxies are rejected", async () => {
  for (const [wrong, attribute] of [
    [{ destinationUrl: "http://psp.example" }, "destination_url"],
    [{ destinationUrl: "https://10.0.0.1" }, "destination_url"],
    [{ requestTransform: { type: "mask" } }, "request_transform.matcher"],
    [{ requestTransforms: [CODE, CODE] }, "request_transforms"],
  ]) {
    const creation = management.proxies.create({ name: "wrong", destinationUrl: DESTINATION, ...wrong });
    await assert.rejects(creation, (error) => {
      assert.ok(error instanceof BadRequestError, String(error));
      assert.ok(attribute in error.body.errors, JSON.stringify(error.body));
      return true;
    });
  }
  const denied = vault.client("private").proxies.create({ name: "wrong", destinationUrl: DESTINATION });
  await assert.rejects(denied, ForbiddenError);
});
