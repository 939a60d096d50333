// Executes the examples of docs/proxy.md and compares their output with the page.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readFile, rm, writeFile, mkdir } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

import { startVault } from "./vault.js";

const MARK = "=== end of example ===";
// The environment of the client tests, with the packages that the examples import.
const PYTHON = fileURLToPath(new URL("../../target/clients/python/bin/python", import.meta.url));

// The blocks of the page, in order. A program begins with a comment that has its file name.
async function readBlocks() {
  const text = await readFile(new URL("../../docs/proxy.md", import.meta.url), "utf8");
  return [...text.matchAll(/```(sh|json|js|python)\n([^]*?)```/g)].map(([, kind, body]) => {
    const name = /^(?:\/\/|#) (\w+\.(?:mjs|py))/.exec(body)?.[1];
    assert.equal(["js", "python"].includes(kind), name !== undefined, body);
    return { kind, body, name };
  });
}

// Each command with the output that the page prints after it.
function pairCommands(blocks) {
  return blocks.flatMap(({ kind, body }, index) => {
    const next = blocks[index + 1];
    return kind === "sh" ? [{ command: body, expected: next?.kind === "json" ? next.body : "" }] : [];
  });
}

async function freePort() {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  return port;
}

async function startProvider(folder) {
  const child = spawn(process.execPath, [join(folder, "provider.mjs")], {
    stdio: ["ignore", "pipe", "inherit"],
    env: { ...process.env, PORT: "0" },
  });
  const [url] = await once(createInterface({ input: child.stdout }), "line");
  return { url, stop: () => child.kill() };
}

// `python3` of the examples is the one of the environment.
async function createPath(folder) {
  const python = process.env.PYTHON ?? (existsSync(PYTHON) ? PYTHON : undefined);
  if (!python) return process.env.PATH;
  const programs = join(folder, "bin");
  await mkdir(programs);
  await writeFile(join(programs, "python3"), `#!/bin/sh\nexec "${python}" "$@"\n`, { mode: 0o755 });
  return `${programs}${delimiter}${process.env.PATH}`;
}

test("examples of the proxy guide have the printed output", { timeout: 180_000 }, async () => {
  const blocks = await readBlocks();
  const folder = await mkdtemp(join(tmpdir(), "scrip-proxy-"));
  for (const { name, body } of blocks.filter((it) => it.name)) await writeFile(join(folder, name), body);
  const [placeholders, ...commands] = pairCommands(blocks);
  assert.match(placeholders.command, /^export PROVIDER=/);
  assert.ok(commands.length > 20, `${commands.length} examples`);
  const vault = await startVault();
  const provider = await startProvider(folder);
  try {
    const variables = {
      ...vault.variables,
      PROVIDER: provider.url,
      TLS_PORT: String(await freePort()),
      PATH: await createPath(folder),
    };
    const shell = spawn("bash", ["-s"], {
      env: { ...process.env, ...variables },
      cwd: folder,
      stdio: ["pipe", "pipe", "inherit"],
    });
    const output = [];
    shell.stdout.on("data", (part) => output.push(part));
    shell.stdin.end(commands.map((it) => `${it.command}\necho '${MARK}'\n`).join(""));
    const [code] = await once(shell, "close");
    assert.equal(code, 0);
    const outputs = Buffer.concat(output).toString().split(`${MARK}\n`);
    commands.forEach(({ command, expected }, index) => assert.equal(outputs[index], expected, command));
  } finally {
    provider.stop();
    assert.equal(await vault.stop(), 0);
    await rm(folder, { recursive: true });
  }
});
