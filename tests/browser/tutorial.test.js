// The shop of the tutorial, extracted from its text.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";

import { DESKTOP, startBrowser } from "./browser.js";
import { bankOf } from "./shop.js";
import { startVault } from "./vault.js";

test("shop of the tutorial works as printed", async () => {
  const text = await readFile(new URL("../../docs/tutorial-checkout.md", import.meta.url), "utf8");
  const block = (kind) => new RegExp(`\`\`\`${kind}\n([^]*?)\`\`\``).exec(text)[1];
  const folder = await mkdtemp(join(tmpdir(), "scrip-shop-"));
  await writeFile(join(folder, "index.html"), block("html"));
  await writeFile(join(folder, "shop.mjs"), block("js"));
  const vault = await startVault();
  const keys = { PUBLIC_KEY: vault.keys.public, PRIVATE_KEY: vault.keys.private };
  const child = spawn(process.execPath, [join(folder, "shop.mjs")], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, ...keys, VAULT: vault.url, PORT: "0" },
    cwd: new URL(".", import.meta.url),
  });
  const browser = await startBrowser();
  try {
    const [url] = await once(createInterface({ input: child.stdout }), "line");
    await browser.withPage("tutorial", DESKTOP, async (page) => {
      await page.goto(url);
      await page.click("#pay");
      const bank = await bankOf(page);
      assert.match(await bank.locator("dl").textContent(), /My shop.*80\.00 GBP/);
      await bank.fill("#code", "1234");
      await bank.click("button.main");
      await page.getByText("successful").waitFor();
      await page.fill("#number", "4100000000000003");
      await page.click("#pay");
      await page.getByText("3DS is not supported").waitFor();
    });
  } finally {
    child.kill();
    await browser.stop();
    assert.equal(await vault.stop(), 0);
    await rm(folder, { recursive: true });
  }
});
