// A shop on the site of the hosted fields: `shop.vault.test` and `vault.test`. Chromium puts documents of one site into one
// process, where a page can measure what a field draws, unless the field asks for a process of its own.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP } from "./browser.js";
import { FIELDS, NEIGHBOR, startSites } from "./sites.js";

// Loads a document into a frame before the first one of the fields, because the first document of an origin decides.
const SHOP_PAGE = `<!DOCTYPE html><html lang="en"><title>Shop</title><link rel="icon" href="data:,">
<div id="field"></div>
<script type="module">
  const parameters = new URLSearchParams(location.search);
  window.addFrame = (url) => new Promise((loaded) => {
    const frame = document.createElement("iframe");
    frame.addEventListener("load", () => loaded());
    frame.src = url;
    document.body.append(frame);
  });
  if (parameters.has("first")) await window.addFrame("${FIELDS}" + parameters.get("first"));
  await new Promise((loaded) => {
    const script = document.createElement("script");
    script.addEventListener("load", loaded);
    script.src = "${FIELDS}/elements/client.js";
    document.head.append(script);
  });
  const elements = await window.BasisTheoryElements.init(parameters.get("key"));
  await elements.createElement("text", { targetId: "field", "aria-label": "Text" }).mount("#field");
  document.body.dataset.ready = "true";
</script>`;

let sites;

before(async () => {
  sites = await startSites({ "/shop": SHOP_PAGE, "/plain": `<link rel="icon" href="data:,"><p>plain</p>` });
});

after(async () => assert.equal(await sites.stop(), 0));

// Only a frame with a process of its own has a debugging session of its own.
const hasOwnProcess = (page, frame) =>
  page
    .context()
    .newCDPSession(frame)
    .then(() => true)
    .catch(() => false);

for (const first of [null, "/api/tokens"]) {
  test(`field on the site of its shop has a process of its own, after ${first ?? "no other document"}`, () =>
    sites.browser.withPage(`same site ${first}`, DESKTOP, async (page) => {
      const query = first === null ? "" : `&first=${first}`;
      await page.goto(`${NEIGHBOR}/shop?key=${sites.vault.keys.public}${query}`);
      await page.locator("body[data-ready]").waitFor();
      await page.evaluate(() => window.addFrame("https://plain.vault.test/plain"));
      const plain = page.frames().find((it) => it.url().includes("plain.vault.test"));
      assert.equal(await hasOwnProcess(page, plain), false, "the control shares the process of its page");
      const fields = page.frames().filter((it) => it.url().startsWith(`${FIELDS}/`) && it.url().includes("elements"));
      assert.ok(fields.length >= 2, "the controller and the field");
      for (const field of fields) {
        assert.equal(await hasOwnProcess(page, field), true, `${field.url()} shares the process of its page`);
      }
    }));
}
