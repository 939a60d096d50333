// Card details by BIN through the official Node client.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { startVault } from "./vault.js";

let vault;

before(async () => {
  vault = await startVault();
});

after(async () => {
  assert.equal(await vault.stop(), 0);
});

test("card details have the networks of a co-badged BIN", async () => {
  for (const kind of ["public", "private", "management"]) {
    const details = await vault.client(kind).enrichments.getcarddetails({ bin: "415058" });
    assert.equal(details.brand, "visa");
    assert.equal(details.funding, "credit");
    assert.equal(details.issuer.country, "FR");
    assert.deepEqual(details.binRange, [{ binMin: "41505800", binMax: "41505899" }]);
    assert.deepEqual(details.additional.map((it) => it.brand), ["cartes-bancaires"]);
    assert.deepEqual(details.additional[0].binRange, details.binRange);
  }
});

test("an unknown BIN is 404 and a malformed one 400", async () => {
  const client = vault.client("public");
  await assert.rejects(client.enrichments.getcarddetails({ bin: "999999" }), { statusCode: 404 });
  await assert.rejects(client.enrichments.getcarddetails({ bin: "4150" }), { statusCode: 400 });
});

test("an update by a client that does not know origins keeps them", async () => {
  const url = `${vault.url}/applications`;
  const headers = { "BT-API-KEY": vault.keys.management, "Content-Type": "application/json" };
  const body = { name: "Shop", type: "public", permissions: ["token:create"], origins: ["https://shop.example"] };
  const created = await (await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).json();
  assert.deepEqual(created.origins, ["https://shop.example"]);
  const client = vault.client("management");
  await client.applications.update(created.id, { name: "Renamed", permissions: ["token:create"] });
  const stored = await (await fetch(`${url}/${created.id}`, { headers })).json();
  assert.deepEqual([stored.name, stored.origins], ["Renamed", ["https://shop.example"]]);
});
