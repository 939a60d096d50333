// Lists and searches through the official Node client and its own iterators.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { BasisTheory } from "@basis-theory/node-sdk";

import { startVault } from "./vault.js";

const COUNT = 1000;
const all = Array.from({ length: COUNT }, (_, at) => `listed-${String(at).padStart(4, "0")}`);

let vault, client;

before(async () => {
  vault = await startVault();
  client = vault.client("private");
  const create = (id, at) =>
    client.tokens.create({
      id,
      type: "token",
      data: `value-${id}`,
      containers: [`/listed/${at % 7}/`],
      metadata: { seventh: String(at % 7) },
      searchIndexes: ["{{ data }}"],
    });
  for (let at = 0; at < COUNT; at += 20) {
    await Promise.all(all.slice(at, at + 20).map((id, inner) => create(id, at + inner)));
  }
});

after(async () => {
  assert.equal(await vault.stop(), 0);
});

async function ids(pages) {
  const found = [];
  for await (const token of await pages) found.push(token.id);
  return found;
}

test("iterator returns all tokens of all pages", async () => {
  const found = await ids(client.tokens.listV2({ size: 100 }));
  assert.deepEqual(found.sort(), all);
  assert.equal((await ids(client.tokens.listV2({ container: "/listed/6/", size: 9 }))).length, 142);
});

test("list filters work", async () => {
  const sixth = await ids(client.tokens.listV2({ metadata: { seventh: "6" }, size: 100 }));
  assert.deepEqual(sixth, await ids(client.tokens.listV2({ container: "/listed/6/", size: 100 })));
  const rejected = client.tokens.listV2({ type: "token", fingerprint: "x" });
  // The client has no error class for a rejected list.
  await assert.rejects(async () => rejected, { statusCode: 400 });
});

test("search finds tokens", async () => {
  const found = await ids(client.tokens.searchV2({ query: 'data:"value-listed-0042"' }));
  assert.deepEqual(found, ["listed-0042"]);
  const sixth = await ids(client.tokens.searchV2({ query: "metadata.seventh:6", size: 50 }));
  assert.equal(sixth.length, 142);
  const rejected = client.tokens.searchV2({ query: "data:a OR data:b" });
  await assert.rejects(async () => rejected, BasisTheory.BadRequestError);
});
