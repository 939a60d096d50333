// A hostile page gives a field fonts that nobody used before, to find by time which characters the field draws.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";

import { DESKTOP } from "./browser.js";
import { FIELD_SHOP_PAGE, withFields } from "./field-shop.js";
import { startSites } from "./sites.js";

const FIELDS = `[
  ["code", "cardVerificationCode", {}],
  ["follower", "cardVerificationCode", { disabled: true }],
  ["number", "cardNumber", {}],
  ["name", "text", {}],
]`;

let sites;

before(async () => {
  sites = await startSites({ "/fields": FIELD_SHOP_PAGE });
});

after(async () => assert.equal(await sites.stop(), 0));

function inShop(name, use) {
  test(name, () => withFields(sites, name, { ...DESKTOP, fields: FIELDS }, (shop) => use(shop, fontsOf(shop))));
}

function fontsOf({ page, input, eventually }) {
  return {
    // Every update sets a color too, which shows that the field has applied it.
    async update(id, block, color) {
      await page.evaluate(
        ([id, block, color]) => window.elements[id].update({ style: { base: { ...block, color }, invalid: { ...block, color }, complete: { ...block, color } } }),
        [id, block, color],
      );
      await eventually(async () => assert.equal(await input(id).evaluate((it) => getComputedStyle(it).color), color));
    },
    font: (id) =>
      input(id).evaluate((it) => {
        const { fontSize, fontWeight, fontFamily, letterSpacing, textShadow, textTransform } = getComputedStyle(it);
        return { fontSize, fontWeight, fontFamily, letterSpacing, textShadow, textTransform };
      }),
  };
}

const OTHER = {
  fontSize: "23.4px", fontWeight: 700, fontFamily: "monospace", letterSpacing: "0.5px", textShadow: "0 0 1px red", textTransform: "uppercase",
};

inShop("field with a text keeps its font until it is empty", async ({ input, eventually }, { update, font }) => {
  for (const [id, text] of [["code", "528"], ["number", "453957"], ["name", "Jo"]]) {
    const initial = await font(id);
    await update(id, { fontSize: "20.02px" }, "rgb(1, 2, 3)");
    const changed = await font(id);
    assert.deepEqual(changed, { ...initial, fontSize: "20px" }, `control: an empty ${id} changes, in whole pixels`);
    await input(id).pressSequentially(text);
    await update(id, OTHER, "rgb(4, 5, 6)");
    assert.deepEqual(await font(id), changed, id);
    await input(id).fill("");
    await update(id, OTHER, "rgb(7, 8, 9)");
    const { fontSize, fontWeight } = await font(id);
    assert.deepEqual([fontSize, fontWeight], ["23px", "700"], `an emptied ${id} changes`);
  }
  await eventually(async () => assert.equal(await input("code").inputValue(), ""));
});

inShop("field that has shown another one never changes its font", async ({ page, input, eventually }, { update, font }) => {
  await update("follower", { fontSize: "18px" }, "rgb(1, 2, 3)");
  const initial = await font("follower");
  assert.equal(initial.fontSize, "18px");
  await page.evaluate(() => window.elements.follower.setValueRef(window.elements.code));
  await input("code").pressSequentially("528");
  await eventually(async () => assert.equal(await input("follower").inputValue(), "528"));
  await update("follower", OTHER, "rgb(4, 5, 6)");
  assert.deepEqual(await font("follower"), initial);
  await page.evaluate(() => window.elements.follower.clear());
  await eventually(async () => assert.equal(await input("follower").inputValue(), ""));
  await update("follower", OTHER, "rgb(7, 8, 9)");
  assert.deepEqual(await font("follower"), initial, "also after it was emptied");
});
