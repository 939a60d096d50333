// The security headers of every page.

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

const form = (fields) => ({ method: "POST", body: new URLSearchParams(fields) });
const UNKNOWN_ID = "00000000-0000-0000-0000-000000000000";

// Pages that must work in frames and windows of any origin: no rule restricts who frames them, and
// none separates them from their opener.
const FRAMED = [
  ["/pages/method.html", undefined, /^default-src 'none'; script-src 'nonce-(\w{32})'; style-src 'nonce-\1'; frame-src http: https:; base-uri 'none'$/],
  ["/pages/challenge.html", undefined, /^default-src 'none'; script-src 'nonce-(\w{32})'; style-src 'nonce-\1'; frame-src http: https:; base-uri 'none'$/],
  [`/3ds/sessions/${UNKNOWN_ID}/challenge-notification`, form({ erro: "e30" }), /^default-src 'none'; base-uri 'none'; form-action 'none'; script-src 'nonce-\w{32}'$/],
  [`/3ds/sessions/${UNKNOWN_ID}/challenge-notification`, form({ cres: "e30" }), /^default-src 'none'; base-uri 'none'; form-action 'none'$/],
  [`/3ds/sessions/${UNKNOWN_ID}/method-notification`, form({ threeDSMethodData: "e30" }), /^default-src 'none'; base-uri 'none'; form-action 'none'$/],
];

async function page(url, options) {
  const response = await fetch(url, options);
  const { headers } = response;
  const html = await response.text();
  assert.equal(headers.get("content-type"), "text/html; charset=utf-8", url);
  assert.equal(headers.get("x-content-type-options"), "nosniff", url);
  assert.equal(headers.get("referrer-policy"), "no-referrer", url);
  assert.equal(headers.get("cache-control"), "no-store", url);
  return { headers, html, policy: headers.get("content-security-policy") };
}

for (const [path, options, expected] of FRAMED) {
  test(`${options?.method ?? "GET"} ${path} ${options?.body ?? ""}`, async () => {
    const { headers, html, policy } = await page(vault.url + path, options);
    assert.match(policy, expected);
    assert.doesNotMatch(policy, /unsafe|frame-ancestors/);
    for (const name of ["x-frame-options", "cross-origin-opener-policy", "cross-origin-resource-policy"]) {
      assert.equal(headers.get(name), null, name);
    }
    // The policy names every script and style, and nothing is loaded from elsewhere.
    const nonce = /nonce-(\w+)/.exec(policy)?.[1];
    for (const [, attributes] of html.matchAll(/<(?:script|style)\b([^>]*)>/g)) {
      assert.equal(attributes, ` nonce="${nonce}"`);
    }
    assert.doesNotMatch(html, /\s(src|href|on\w+)=/);
  });
}

test("every page has a new nonce", async () => {
  const policies = await Promise.all(
    [1, 2, 3].map(async () => (await page(`${vault.url}/pages/challenge.html`)).policy),
  );
  assert.equal(new Set(policies).size, 3);
});

test("demo has a strict policy", async () => {
  const { policy, html } = await page(vault.demo);
  // The hosted fields have another origin than the shop.
  const fields = vault.url.replace("127.0.0.1", "localhost");
  assert.equal(
    policy,
    `default-src 'none'; script-src 'self' ${fields}; style-src 'self'; img-src 'self'; connect-src 'self'; ` +
      `frame-src 'self' ${fields} ${vault.provider}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  );
  assert.doesNotMatch(html.replaceAll(fields, ""), /<style|style=|\son\w+=|https?:/);
  const files = [...html.matchAll(/(?:src|href)="(\/demo\/[^"]+)"/g)].map((it) => it[1]);
  assert.ok(files.length >= 4);
  for (const path of [...files, "/demo/card-fields.js", "/demo/payment.js", "/demo/sandbox.js"]) {
    const response = await fetch(vault.url + path);
    assert.equal(response.status, 200, path);
    assert.equal(response.headers.get("x-content-type-options"), "nosniff", path);
    const kind = { css: "text/css", js: "text/javascript", svg: "image/svg+xml" }[path.split(".").pop()] ?? "text/html";
    assert.ok(response.headers.get("content-type").startsWith(kind), path);
  }
});

test("demo backend accepts requests of its own page only", async () => {
  const asks = (headers) => fetch(`${vault.url}/demo/settings`, { headers });
  assert.equal((await asks({})).status, 200);
  assert.equal((await asks({ Origin: vault.url })).status, 200);
  assert.equal((await asks({ Origin: "https://shop.example" })).status, 404);
  assert.equal((await asks({ Origin: "null" })).status, 404);
  assert.equal((await asks({ "Sec-Fetch-Site": "cross-site" })).status, 404);
  const text = await (await asks({})).text();
  assert.deepEqual(JSON.parse(text), { public_key: vault.keys.public });
});

test("simulated bank pages have a strict policy", async () => {
  for (const [path, options] of [
    ["/sim/acs/visa/method", form({ threeDSMethodData: "e30" })],
    ["/sim/acs/challenge", form({ creq: "e30" })],
  ]) {
    const { policy } = await page(vault.simulator + path, options);
    assert.match(policy, /^default-src 'none'; style-src 'nonce-(\w{32})'; script-src 'nonce-\1'; form-action 'self' ?\S*; base-uri 'none'$/);
  }
});
