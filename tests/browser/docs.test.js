// The API page: sample tabs that work without a script.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP, PHONE, startBrowser } from "./browser.js";
import { startVault } from "./vault.js";

let browser, vault;

before(async () => {
  [browser, vault] = await Promise.all([startBrowser(), startVault()]);
});

after(async () => {
  await browser.stop();
  assert.equal(await vault.stop(), 0);
});

const SAMPLES = ["curl sample", "Python sample", "Node.js sample"];

// The visible samples of an operation.
async function visible(article) {
  const visibleNames = [];
  for (const name of SAMPLES) {
    if (await article.getByRole("region", { name }).isVisible()) visibleNames.push(name);
  }
  return visibleNames;
}

for (const [name, options] of Object.entries({ DESKTOP, PHONE, DARK: { ...PHONE, colorScheme: "dark" } })) {
  test(`a tab shows its sample and hides the others: ${name}`, async () => {
    await browser.withPage(`samples ${name}`, options, async (page) => {
      await page.goto(`${vault.url}/docs#create_token`);
      const article = page.locator("#create_token");
      assert.deepEqual(await visible(article), ["curl sample"]);
      await article.getByText("Python", { exact: true }).click();
      assert.deepEqual(await visible(article), ["Python sample"]);
      const source = await article.getByRole("region", { name: "Python sample" }).innerText();
      assert.match(source, /^import os\n\nfrom basis_theory import BasisTheory\n/);
      await page.keyboard.press("ArrowRight");
      assert.deepEqual(await visible(article), ["Node.js sample"]);
      assert.deepEqual(await visible(page.locator("#get_token")), ["curl sample"]);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      assert.ok(width <= options.viewport.width, `${width} pixels wide`);
    });
  });
}
