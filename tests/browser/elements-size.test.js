// The size of the hosted fields: what a browser loads for each document, compressed.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";

import { startVault } from "./vault.js";

const DOCUMENT_BYTES_MAX = 30_000;

let vault;

before(async () => {
  vault = await startVault();
});

after(async () => assert.equal(await vault.stop(), 0));

async function load(path) {
  const response = await fetch(vault.url + path);
  assert.equal(response.status, 200, path);
  return response.text();
}

// A page with the scripts and styles that it names.
async function documentBytes(name) {
  const html = await load(`/web-elements/1/hosted-elements/${name}`);
  const paths = [...html.matchAll(/(?:src|href)="(\/elements\/[^"]+)"/g)].map(([, path]) => path);
  assert.ok(paths.length > 0, name);
  const texts = [html, ...(await Promise.all(paths.map(load)))];
  assert.ok(texts.every((it) => !/^import /m.test(it)), `${name} loads further modules`);
  return texts.reduce((sum, text) => sum + gzipSync(text, { level: 9 }).length, 0);
}

test("page script and each frame have at most 30 KB", async () => {
  const sizes = {
    "client.js": gzipSync(await load("/elements/client.js"), { level: 9 }).length,
    "controller.html": await documentBytes("controller.html"),
    "field.html": await documentBytes("field.html"),
  };
  console.log(JSON.stringify(sizes));
  for (const [name, bytes] of Object.entries(sizes)) assert.ok(bytes <= DOCUMENT_BYTES_MAX, `${name}: ${bytes} bytes`);
});
