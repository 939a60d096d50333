// The shop of the tutorial, extracted from its text.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { createServer, request as sendRequest } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

import { DESKTOP, startBrowser } from "./browser.js";
import { bankOf } from "./shop.js";
import { startVault } from "./vault.js";

// Starts the shop as printed, with its vault. The relay is between the backend and the vault.
async function withShop(use, change = (it) => it) {
  const text = await readFile(new URL("../../docs/tutorial-checkout.md", import.meta.url), "utf8");
  const block = (kind) => new RegExp(`\`\`\`${kind}\n([^]*?)\`\`\``).exec(text)[1];
  const folder = await mkdtemp(join(tmpdir(), "scrip-shop-"));
  await writeFile(join(folder, "index.html"), block("html"));
  await writeFile(join(folder, "shop.mjs"), block("js"));
  const vault = await startVault();
  const relay = await startRelay(vault.url);
  const keys = { SCRIP_PUBLIC_KEY: vault.keys.public, SCRIP_KEY: vault.keys.private };
  const addresses = { SCRIP_URL: relay.url, BROWSER_URL: vault.url, PORT: "0" };
  const child = spawn(process.execPath, [join(folder, "shop.mjs")], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...change({ ...keys, ...addresses }) },
    cwd: new URL(".", import.meta.url),
  });
  const log = [];
  createInterface({ input: child.stderr }).on("line", (line) => log.push(line));
  const browser = await startBrowser();
  try {
    const [url] = await once(createInterface({ input: child.stdout }), "line");
    await browser.withPage("tutorial", DESKTOP, async (page) => {
      await page.goto(url);
      await use({ page, relay, vault, log });
    });
  } finally {
    child.kill();
    await browser.stop();
    relay.stop();
    assert.equal(await vault.stop(), 0);
    await rm(folder, { recursive: true });
  }
}

// Forwards the requests of the backend, except those that get a response from `faults`.
async function startRelay(target) {
  const relay = { faults: [], seen: [] };
  const server = createServer((request, response) => {
    relay.seen.push({ path: request.url, idempotencyKey: request.headers["bt-idempotency-key"] });
    const fault = relay.faults.shift();
    if (fault === "lost") return request.socket.destroy();
    if (fault) return response.writeHead(fault.status, fault.headers).end(JSON.stringify({ detail: "fault", ...fault }));
    const { method, headers } = request;
    const forwarded = sendRequest(target + request.url, { method, headers }, (answer) => {
      response.writeHead(answer.statusCode, answer.headers);
      answer.pipe(response);
    });
    request.pipe(forwarded);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  relay.url = `http://127.0.0.1:${server.address().port}`;
  relay.stop = () => server.close().closeAllConnections();
  return relay;
}

// Types into the frame of the vault.
async function typeNumber(page, number) {
  const input = page.frameLocator("#number iframe").getByLabel("Card number");
  await input.click();
  await input.fill(number);
}

async function payWith(page, number, expected) {
  await typeNumber(page, number);
  await page.click("#pay");
  await page.getByText(expected).waitFor();
}

async function confirm(page) {
  const bank = await bankOf(page);
  await bank.fill("#code", "1234");
  await bank.click("button.main");
}

const PAID = "successful: your bank confirmed you";

test("shop of the tutorial works as printed", () =>
  withShop(async ({ page }) => {
    await page.click("#pay");
    const bank = await bankOf(page);
    assert.match(await bank.locator("dl").textContent(), /My shop.*80\.00 GBP/);
    await bank.fill("#code", "1234");
    await bank.click("button.main");
    await page.getByText("successful").waitFor();
    await payWith(page, "4100000000000003", "3DS is not supported");
  }));

test("shop of the tutorial names declined, failed and invalid cards", () =>
  withShop(async ({ page }) => {
    await payWith(page, "4242424242424241", "not paid: check the card number");
    await payWith(page, "4200000000000005", "not paid: your bank declined");
    await payWith(page, "4242424242424242", PAID);
    await payWith(page, "4200000000000007", "not paid: your bank declined");
    await payWith(page, "4200000000000006", "not paid: your bank could not confirm you");
    await payWith(page, "4200000000000012", "not paid: the bank or the card scheme failed");
    await typeNumber(page, "4200000000000009");
    await page.click("#pay");
    await confirm(page);
    await page.getByText("not paid: your bank declined").waitFor();
  }));

test("shop of the tutorial repeats requests after 429, 503 and lost connections", () =>
  withShop(async ({ page, relay, log }) => {
    const started = Date.now();
    relay.faults = ["lost", { status: 429, headers: { "Retry-After": "1" } }];
    await payWith(page, "4242424242424242", PAID);
    assert.ok(Date.now() - started >= 2000, "the shop did not wait");
    assert.equal(relay.seen.length, 3);
    assert.equal(new Set(relay.seen.map((it) => it.idempotencyKey)).size, 1);
    assert.ok(relay.seen[0].idempotencyKey.startsWith("authenticate-"));
    assert.ok(log.some((line) => line.includes("attempt 2") && line.includes("429")), log.join("\n"));

    const faults = [(route) => route.abort(), (route) => route.fulfill({ status: 503, headers: CORS, body: "{}" })];
    await page.route("**/token-intents", (route) => (faults.shift() ?? ((it) => it.continue()))(route));
    await payWith(page, "4242424242424242", PAID);
    assert.equal(faults.length, 0);
    await page.route("**/token-intents", (route) => route.fulfill({ status: 429, headers: CORS, body: "{}" }));
    await payWith(page, "4242424242424242", "not paid: too many attempts");
  }));

const CORS = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Expose-Headers": "retry-after",
  "Retry-After": "1",
};

test("shop of the tutorial logs a wrong key and does not repeat the request", () =>
  withShop(
    async ({ page, relay, log }) => {
      await payWith(page, "4242424242424242", /not paid: payments do not work; our reference is [0-9a-f]{32}$/);
      assert.equal(relay.seen.length, 1);
      assert.ok(log.some((line) => line.includes("401") && line.includes("BT-API-KEY")), log.join("\n"));
    },
    (variables) => ({ ...variables, SCRIP_KEY: "wrong" }),
  ));
