// A shop page with hosted fields that a test chooses, and access to the documents inside the frames.

import { FIELDS, SHOP } from "./sites.js";

// `fields` is a list of `[id, element type, options]`.
export const FIELD_SHOP_PAGE = `<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Shop</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">
<style>
  body { max-width: 34em; margin: 1em auto; padding: 0 1em; font-family: system-ui, sans-serif; }
  .field { margin: .5em 0; padding: .5em .75em; border: 1px solid #888; border-radius: .4em; }
</style>
<main><h1>Checkout</h1><p><a id="before" href="#before">Basket</a></p><div id="fields"></div>
<p><a id="after" href="#after">Terms</a></p></main>
<script src="${FIELDS}/elements/client.js"></script>
<script>
  window.events = [];
  window.elements = {};
  window.addFields = async (key, fields) => {
    window.instance ??= await window.BasisTheoryElements.init(key);
    const mounts = fields.map(([id, type, options]) => {
      const place = document.createElement("div");
      place.className = "field";
      place.id = id;
      document.getElementById("fields").append(place);
      const element = (window.elements[id] = window.instance.createElement(type, { targetId: id, ...options }));
      for (const name of ["change", "focus", "blur", "keydown", "click", "copy"]) {
        element.on(name, (event) => window.events.push({ ...event, id }));
      }
      return element.mount(place);
    });
    await Promise.all(mounts);
  };
</script>`;

// Runs `use` on a shop page with fields. `prepare` runs in the page before the fields are created.
export async function withFields(sites, name, { fields, prepare, ...options }, use) {
  await sites.browser.withPage(`fields ${name}`, options, async (page) => {
    await page.goto(`${SHOP}/fields`);
    if (prepare) await page.evaluate(prepare);
    // A function: RegExps do not pass through the arguments of a call.
    await page.evaluate(`addFields(${JSON.stringify(sites.vault.keys.public)}, ${fields})`);
    await use(fieldPage(page));
  });
}

function fieldPage(page) {
  const events = (id, type) =>
    page.evaluate(([id, type]) => window.events.filter((it) => it.id === id && it.type === type), [id, type]);
  return {
    page,
    frame: (id) => page.frameLocator(`#${id} iframe`),
    input: (id, name = ".input") => page.frameLocator(`#${id} iframe`).locator(name).first(),
    // The document inside a frame, with `evaluate`.
    async document(id) {
      const handle = await page.locator(`#${id} iframe`).elementHandle();
      return handle.contentFrame();
    },
    events,
    lastChange: async (id) => (await events(id, "change")).at(-1),
    // Repeats until the check passes: messages between frames take a moment.
    async eventually(check) {
      for (let attempt = 0; ; attempt += 1) {
        try {
          return await check();
        } catch (error) {
          if (attempt === 40) throw error;
          await page.waitForTimeout(50);
        }
      }
    },
    caret: (input) => input.evaluate((it) => `${it.value.slice(0, it.selectionStart)}|${it.value.slice(it.selectionEnd)}`),
  };
}
