// Applications, keys, tenants, permissions and sessions through the official Node client.

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { after, before, test } from "node:test";

import { BasisTheory } from "@basis-theory/node-sdk";

import { startVault } from "./vault.js";

const { BadRequestError, ConflictError, ForbiddenError, NotFoundError, UnauthorizedError } = BasisTheory;
const CARD = { number: "4242424242424242" };
const READS = {
  description: "reads cards",
  priority: 1,
  container: "/pci/",
  transform: "reveal",
  permissions: ["token:read"],
};
const CREATES = { type: "private", permissions: ["token:create"] };
const UNKNOWN_ID = randomUUID();

let vault, management, privately, publicly;

before(async () => {
  vault = await startVault();
  management = vault.client("management");
  privately = vault.client("private");
  publicly = vault.client("public");
});

after(async () => {
  assert.equal(await vault.stop(), 0);
});

// Matches an error of these classes that names the attribute.
function naming(attribute) {
  return (error) => {
    assert.ok(error instanceof BadRequestError, String(error));
    assert.ok(attribute in error.body.errors, `${attribute}: ${JSON.stringify(error.body)}`);
    return true;
  };
}

async function all(page) {
  const found = [];
  for await (const one of page) found.push(one);
  return found;
}

test("applications can be created, read, updated and deleted", async () => {
  const ruled = await management.applications.create({ name: "ruled", type: "private", rules: [READS] });
  assert.equal(ruled.tenantId, vault.tenant_id);
  assert.ok(ruled.key.startsWith("key_test_us_pvt_"));
  assert.deepEqual(ruled.rules, [READS]);
  assert.equal(ruled.keys.length, 1);

  const keyless = { name: "plain", type: "public", permissions: ["token:create"], createKey: false };
  const plain = await management.applications.create(keyless);
  assert.equal(plain.key, undefined);
  assert.equal(plain.keys?.length ?? 0, 0);
  assert.deepEqual(plain.permissions, ["token:create"]);

  const found = await management.applications.get(ruled.id);
  assert.deepEqual([found.id, found.rules, found.key], [ruled.id, [READS], undefined]);
  assert.equal((await vault.client(ruled.key).applications.getByKey()).id, ruled.id);

  const update = { name: "other", permissions: ["token:create"] };
  const updated = await management.applications.update(ruled.id, update);
  assert.deepEqual([updated.name, updated.permissions], ["other", ["token:create"]]);
  assert.equal(updated.rules?.length ?? 0, 0);
  assert.equal(updated.type, "private");
  assert.ok(updated.modifiedAt && updated.modifiedBy);
  await assert.rejects(vault.client(ruled.key).tokens.get("anything"), ForbiddenError);

  for (const { id } of [ruled, plain]) {
    await management.applications.delete(id);
    await assert.rejects(management.applications.get(id), NotFoundError);
  }
  await assert.rejects(vault.client(ruled.key).applications.getByKey(), UnauthorizedError);
});

test("pager returns each application once", async () => {
  const created = [];
  for (let at = 0; at < 7; at += 1) {
    const one = { name: `paged ${at}`, type: "public", permissions: ["token:create"] };
    created.push((await management.applications.create(one)).id);
  }
  const everything = (await all(await management.applications.list({ size: 3 }))).map((it) => it.id);
  assert.equal(new Set(everything).size, everything.length);
  assert.ok(created.every((id) => everything.includes(id)));

  const ofPublic = await all(await management.applications.list({ type: "public", size: 2 }));
  assert.ok(created.every((id) => ofPublic.some((it) => it.id === id)));
  assert.ok(ofPublic.every((it) => it.type === "public"));
  const some = created.slice(0, 2).sort();
  const found = await all(await management.applications.list({ id: some }));
  assert.deepEqual(found.map((it) => it.id).sort(), some);
  const first = await management.applications.list({ id: created, size: 4 });
  assert.equal(first.data.length, 4);
  assert.equal((await first.getNextPage()).data.length, 3);
  for (const id of created) await management.applications.delete(id);
});

test("application keys can be created and deleted", async () => {
  const application = await management.applications.create({ name: "keys", ...CREATES });
  const key = await management.applicationKeys.create(application.id);
  assert.ok(key.key.startsWith("key_test_us_pvt_") && key.key !== application.key);
  const token = await vault.client(key.key).tokens.create({ type: "token", data: "x" });
  assert.equal(token.createdBy, application.id);

  const listed = await management.applicationKeys.list(application.id);
  assert.deepEqual(listed.map((it) => it.id).sort(), [application.keys[0].id, key.id].sort());
  assert.ok(listed.every((it) => it.key === undefined));
  const filtered = await management.applicationKeys.list(application.id, { id: key.id });
  assert.deepEqual(filtered.map((it) => it.id), [key.id]);
  assert.equal((await management.applicationKeys.get(application.id, key.id)).id, key.id);

  await management.applicationKeys.delete(application.id, key.id);
  const rejected = vault.client(key.key).tokens.create({ type: "token", data: "x" });
  await assert.rejects(rejected, UnauthorizedError);
  await vault.client(application.key).tokens.create({ type: "token", data: "x" });
  await assert.rejects(management.applicationKeys.get(application.id, key.id), NotFoundError);
  await assert.rejects(management.applicationKeys.delete(application.id, key.id), NotFoundError);
});

test("repeated requests with an idempotency key are replayed", async () => {
  const once = () => ({ idempotencyKey: randomUUID() });
  const [creating, keying, updating] = [once(), once(), once()];
  const first = await management.applications.create({ name: "once", ...CREATES }, creating);
  const again = await management.applications.create({ name: "twice", ...CREATES }, creating);
  assert.deepEqual(again, first);
  const key = await management.applicationKeys.create(first.id, keying);
  assert.deepEqual(await management.applicationKeys.create(first.id, keying), key);
  assert.equal((await management.applicationKeys.list(first.id)).length, 2);
  const update = (name) => management.applications.update(first.id, { name, permissions: ["token:read"] }, updating);
  assert.deepEqual(await update("updated"), await update("ignored"));
  assert.equal((await management.applications.get(first.id)).name, "updated");
});

test("invalid requests throw the error classes of the client", async () => {
  const mistakes = [
    [{ name: "", type: "private", permissions: ["token:read"] }, "name"],
    [{ name: "x", type: "strange", permissions: ["token:read"] }, "type"],
    [{ name: "x", type: "private" }, "permissions"],
    [{ name: "x", type: "private", permissions: ["token:fly"] }, "permissions[0]"],
    [{ name: "x", type: "public", permissions: ["token:read"] }, "permissions"],
    [{ name: "x", type: "private", rules: [{ ...READS, container: undefined }] }, "rules[0].container"],
  ];
  for (const [mistake, attribute] of mistakes) {
    await assert.rejects(management.applications.create(mistake), naming(attribute));
  }
  await assert.rejects(management.applications.get(UNKNOWN_ID), NotFoundError);
  await assert.rejects(management.applications.delete(UNKNOWN_ID), NotFoundError);
  const update = management.applications.update(UNKNOWN_ID, { name: "x", permissions: ["token:read"] });
  await assert.rejects(update, NotFoundError);
  // The client has no error class for this response.
  await assert.rejects(management.applicationKeys.create(UNKNOWN_ID), { statusCode: 404 });
  await assert.rejects(privately.applications.list(), ForbiddenError);
  await assert.rejects(privately.applications.create({ name: "x", ...CREATES }), ForbiddenError);
  await assert.rejects(privately.tenants.self.get(), ForbiddenError);
});

test("permissions are listed", async () => {
  const everything = (await management.permissions.list()).map((it) => it.type);
  assert.ok(["token:read", "application:create"].every((it) => everything.includes(it)));
  const ofPublic = await publicly.permissions.list({ applicationType: "public" });
  const names = ofPublic.map((it) => it.type);
  assert.ok(names.includes("token:create") && !names.includes("token:read"));
  assert.ok(ofPublic.every((it) => it.description && it.applicationTypes.includes("public")));
  await assert.rejects(management.permissions.list({ applicationType: "strange" }), { statusCode: 400 });
});

test("tenant can be read, updated and deleted", async () => {
  const own = await startVault();
  try {
    const { self } = own.client("management").tenants;
    const tenant = await self.get();
    assert.deepEqual([tenant.id, tenant.type], [own.tenant_id, "test"]);
    assert.equal(tenant.settings.deduplicate_tokens, "false");
    const once = { idempotencyKey: randomUUID() };
    const updated = await self.update({ name: "renamed", settings: { deduplicate_tokens: "true" } }, once);
    assert.deepEqual([updated.name, updated.settings.deduplicate_tokens], ["renamed", "true"]);
    assert.deepEqual(await self.update({ name: "ignored" }, once), updated);
    assert.equal((await self.get()).name, "renamed");

    const create = () => own.client("private").tokens.create({ type: "card", data: CARD });
    assert.equal((await create()).id, (await create()).id);
    const perhaps = { name: "renamed", settings: { deduplicate_tokens: "perhaps" } };
    await assert.rejects(self.update(perhaps), naming("settings.deduplicate_tokens"));

    await self.delete();
    for (const kind of ["management", "private", "public"]) {
      await assert.rejects(own.client(kind).applications.getByKey(), UnauthorizedError);
    }
  } finally {
    assert.equal(await own.stop(), 0);
  }
});

test("access session has the delegated rights", async () => {
  const create = () => privately.tokens.create({ type: "card", data: CARD });
  const [mine, other] = [await create(), await create()];
  const begun = await publicly.sessions.create();
  assert.ok(begun.sessionKey.startsWith("key_test_us_ses_") && begun.nonce);
  const session = vault.client(begun.sessionKey);
  await assert.rejects(session.tokens.get(mine.id), ForbiddenError);

  const conditions = [{ attribute: "id", operator: "equals", value: mine.id }];
  const rule = { ...READS, container: undefined, conditions, transform: "mask" };
  const expiresAt = new Date(Date.now() + 5 * 60 * 1000).toISOString();
  const lent = { nonce: begun.nonce, rules: [rule], expiresAt };
  await privately.sessions.authorize(lent);
  assert.equal((await session.tokens.get(mine.id)).data.number, "XXXXXXXXXXXX4242");
  await assert.rejects(session.tokens.get(other.id), ForbiddenError);
  await assert.rejects(session.tokens.delete(mine.id), ForbiddenError);
  await assert.rejects(privately.sessions.authorize(lent), ConflictError);
});

test("access sessions are not replayed and reject invalid requests", async () => {
  const once = { idempotencyKey: randomUUID() };
  const begun = await publicly.sessions.create(once);
  // Never returned twice: every caller with the public key could repeat the request.
  assert.notEqual((await publicly.sessions.create(once)).sessionKey, begun.sessionKey);
  const { nonce } = begun;
  for (const client of [privately, management]) {
    await assert.rejects(client.sessions.create(), ForbiddenError);
  }
  const lend = (client, rest) => client.sessions.authorize({ nonce, ...rest });
  const creates = { permissions: ["token:create"] };
  await assert.rejects(lend(publicly, creates), ForbiddenError);
  // Not more than the authorizer has.
  const small = await management.applications.create({ name: "small", ...CREATES });
  await assert.rejects(lend(vault.client(small.key), { permissions: ["token:read"] }), ForbiddenError);
  await assert.rejects(lend(privately, { ...creates, nonce: "unknown" }), NotFoundError);
  const conditions = [{ attribute: "size", operator: "equals", value: "1" }];
  const mistakes = [
    [{}, "permissions"],
    [{ ...creates, expiresAt: "2001-01-01T00:00:00Z" }, "expires_at"],
    [{ permissions: ["tenant:read"] }, "permissions"],
    [{ rules: [{ ...READS, container: undefined, conditions }] }, "rules[0].conditions[0].attribute"],
  ];
  for (const [mistake, attribute] of mistakes) {
    await assert.rejects(lend(privately, mistake), naming(attribute));
  }

  const lending = { idempotencyKey: randomUUID() };
  for (let at = 0; at < 2; at += 1) await privately.sessions.authorize({ nonce, ...creates }, lending);
  await vault.client(begun.sessionKey).tokens.create({ type: "token", data: "x" });
});
