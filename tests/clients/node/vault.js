// A vault to talk to: the real program on a free port, with data of its own.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { BasisTheoryClient } from "@basis-theory/node-sdk";

export async function startVault() {
  const folder = await mkdtemp(join(tmpdir(), "scrip-"));
  const options = ["dev", "--data-dir", join(folder, "data"), "--listen", "127.0.0.1:0"];
  const child = spawn(process.env.SCRIP, [...options, "--json", "--rate-limits", "off"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout });
  const [line] = await once(lines, "line");
  const announced = JSON.parse(line);
  return {
    ...announced,
    client: (kind) =>
      new BasisTheoryClient({
        apiKey: announced.keys[kind] ?? kind,
        environment: announced.url,
        maxRetries: 0,
      }),
    async stop() {
      child.kill("SIGTERM");
      const [code] = await once(child, "exit");
      await rm(folder, { recursive: true });
      return code;
    },
  };
}
