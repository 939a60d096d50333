// The shop of docs/browser-to-charge.md, extracted from its text: commands, page and programs.

import assert from "node:assert/strict";
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

import { DESKTOP, startBrowser } from "./browser.js";
import { bankOf } from "./shop.js";
import { startVault } from "./vault.js";

const run = promisify(execFile);
const TESTS = dirname(dirname(fileURLToPath(import.meta.url)));

// Finds a code block of the page by its language and a part of it.
async function readBlocks() {
  const text = await readFile(join(TESTS, "../docs/browser-to-charge.md"), "utf8");
  const blocks = [...text.matchAll(/```(\w+)\n([^]*?)```/g)].map(([, kind, body]) => ({ kind, body }));
  const find = (kind, part) => blocks.find((it) => it.kind === kind && it.body.includes(part)).body;
  return find;
}

async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((it) => once(it, "listening")));
  const ports = servers.map((it) => String(it.address().port));
  servers.forEach((it) => it.close());
  return ports;
}

// The packages that the page installs.
async function linkPackages(folder) {
  const packages = join(folder, "node_modules/@basis-theory");
  await mkdir(packages, { recursive: true });
  await symlink(join(TESTS, "clients/node/node_modules/@basis-theory/node-sdk"), join(packages, "node-sdk"));
  await symlink(join(TESTS, "browser/node_modules/@basis-theory/web-threeds"), join(packages, "web-threeds"));
}

async function startProgram(folder, name, variables, lines) {
  const child = spawn(process.execPath, [join(folder, name)], {
    cwd: folder,
    env: { ...process.env, ...variables },
    stdio: ["ignore", "pipe", "inherit"],
  });
  const output = createInterface({ input: child.stdout });
  output.on("line", (line) => lines.push(line));
  await once(output, "line");
  return child;
}

async function pay(page, number) {
  await page.reload();
  await page.fill("#number", number);
  await page.click("button");
  return page.locator("#status");
}

async function expectStatus(status, expected) {
  await status.page().waitForFunction((it) => document.getElementById("status").textContent === it, expected).catch(async () => {
    assert.equal(await status.textContent(), expected);
  });
}

// The rows of the table: card and text of the page.
const OUTCOMES = [
  ["4242424242424242", "paid with the card ending in 4242"],
  ["4200000000000002", "not paid: declined"],
  ["4200000000000005", "not paid: authentication failed"],
  ["4100000000000003", "error: 3DS is not supported for the provided card"],
  ["4242424242424241", "error: is not a card number: its checksum fails"],
];

test("shop of the guide charges through the proxy and never receives a number", { timeout: 180_000 }, async () => {
  const find = await readBlocks();
  const folder = await mkdtemp(join(tmpdir(), "scrip-charge-"));
  await writeFile(join(folder, "index.html"), find("html", "<form"));
  await writeFile(join(folder, "shop.mjs"), find("js", "getChallengeResult"));
  await writeFile(join(folder, "processor.mjs"), find("js", "A fake processor"));
  await linkPackages(folder);
  const [shopPort, processorPort] = await freePorts(2);
  const vault = await startVault();
  const browser = await startBrowser();
  const programs = [], lines = [];
  try {
    let variables = { ...vault.variables, PROCESSOR: `http://127.0.0.1:${processorPort}` };
    const shell = async (command) => (await run("bash", ["-c", command], { env: { ...process.env, ...variables } })).stdout;
    const [BROWSER_KEY, SHOP_KEY, PROXY_KEY] = (await shell(find("sh", "create applications"))).trim().split(" ");
    assert.ok([BROWSER_KEY, SHOP_KEY, PROXY_KEY].every((it) => it && it !== "null"));
    variables = { ...variables, BROWSER_KEY, SHOP_KEY, PROXY_KEY };
    programs.push(await startProgram(folder, "processor.mjs", { PORT: processorPort }, lines));
    programs.push(await startProgram(folder, "shop.mjs", { ...variables, PORT: shopPort }, lines));
    await browser.withPage("charge", DESKTOP, async (page) => {
      const shopRequests = [];
      page.on("request", (it) => it.url().includes(`:${shopPort}/`) && shopRequests.push(it.postData() ?? ""));
      await page.goto(`http://127.0.0.1:${shopPort}`);
      const status = await pay(page, "4000020000000000");
      const bank = await bankOf(page);
      await bank.fill("#code", "1234");
      await bank.click("button.main");
      await expectStatus(status, "paid with the card ending in 0000");
      for (const [number, expected] of OUTCOMES) await expectStatus(await pay(page, number), expected);
      assert.ok(shopRequests.length > 4);
      assert.doesNotMatch(shopRequests.join(), /4000020000000000|4242424242424242/);
      const stored = lines.map((it) => /^charge ch_\d+, stored card (\S+)$/.exec(it)?.[1]).filter(Boolean);
      assert.equal(stored.length, 2);
      await checkStoredCard(stored[1], find, (command) => shell(`TOKEN=${stored[1]}\n${command}`));
      programs[0].kill();
      await once(programs[0], "exit");
      await expectStatus(await pay(page, "4242424242424242"), "not paid: the processor is not available");
    });
    assert.deepEqual(
      lines.filter((it) => it.includes("digits")),
      [
        "8000 16 digits, ends in 0000, 12/2030, cvc yes, eci 05: approved",
        "8000 16 digits, ends in 4242, 12/2030, cvc yes, eci 05: approved",
        "8000 16 digits, ends in 0002, 12/2030, cvc yes, eci 05: declined",
        "1500 16 digits, ends in 4242, 12/2030, cvc no, eci none: approved",
      ],
    );
  } finally {
    programs.forEach((it) => it.kill());
    await browser.stop();
    assert.equal(await vault.stop(), 0);
    await rm(folder, { recursive: true });
  }
});

async function checkStoredCard(token, find, shell) {
  assert.deepEqual(JSON.parse(await shell(find("sh", "order-1002"))), { id: "ch_4", status: "approved" });
  const masked = '{"expiration_month":12,"expiration_year":2030,"number":"XXXXXXXXXXXX4242"}\n';
  assert.equal(await shell(find("sh", "/tokens/$TOKEN -H \"BT-API-KEY: $SHOP_KEY\" | jq")), masked);
  assert.equal(await shell(find("sh", "operation=use_token")), '{"operation":"use_token","outcome":"used_in_call"}\n');
}
