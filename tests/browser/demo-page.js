// A page of the demo in a real browser, with a real vault, for the tests of one file.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { startBrowser } from "./browser.js";
import { startVault } from "./vault.js";

// Returns a function that declares a test. The test gets the page at `path`, the faults that the
// browser reports, and the vault. `prepare` runs before the page is opened.
export function demoPage(title, path, prepare = () => {}) {
  let vault, browser;

  before(async () => {
    vault = await startVault();
    browser = await startBrowser();
  });

  after(async () => {
    await browser.stop();
    assert.equal(await vault.stop(), 0);
  });

  return (name, options, use) =>
    test(name, () =>
      browser.withPage(`${title} ${name}`, options, async (page, faults) => {
        const prepared = prepare(page);
        await page.goto(vault.demo + path);
        await page.locator("body[data-ready]").waitFor();
        await use(page, { faults, vault, prepared });
      }),
    );
}
