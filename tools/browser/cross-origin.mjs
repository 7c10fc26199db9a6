// Logs in with a real browser, then has pages of other origins try to act with that login and to read with it.
// Called by tools/browser-check with the daemon's URL, the file of its key, and the folder of playwright-core.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const [url, keyFile, modules] = process.argv.slice(2);
const { chromium } = createRequire(`${modules}/`)("playwright-core");
const key = readFileSync(keyFile, "utf8").trim();
const failures = [];

function check(holds, what) {
  console.log(`${holds ? "holds" : "FAILS"}  ${what}`);
  if (!holds) failures.push(what);
}

async function asOperator(path) {
  const answer = await fetch(url + path, { headers: { Authorization: `Bearer ${key}` } });
  return answer.json();
}

async function isUntouched(what) {
  const status = await asOperator("/v1/status");
  const history = await asOperator("/v1/history?since_ms=0");
  check(!status.paused && history.rows.length === 0, what);
}

// The other origin serves one empty page, and what a form or a frame needs is put into it.
const other = createServer((request, response) => {
  response.writeHead(200, { "Content-Type": "text/html" });
  response.end("<!doctype html><title>elsewhere</title><body></body>");
});
await new Promise((ready) => other.listen(0, "127.0.0.1", ready));
const port = other.address().port;

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: ["--no-sandbox"] });
const context = await browser.newContext();
const page = await context.newPage();
await page.goto(`${url}/`);
check(new URL(page.url()).pathname === "/login", "a page without a login leads to the login");
await page.fill("#key", key);
await page.click("button");
check(new URL(page.url()).pathname === "/", "a right key leads in");
const cookies = await context.cookies();
check(cookies.length === 1 && cookies[0].httpOnly && cookies[0].sameSite === "Strict", "the cookie is for no script and no other site");
check((await page.evaluate(() => document.cookie)) === "", "a script sees no cookie");

// As a page of another site, and as one of the same site on another port, which SameSite alone does not keep out.
for (const [kind, origin] of [["another site", `http://localhost:${port}`], ["another port", `http://127.0.0.1:${port}`]]) {
  const acts = [
    ["/v1/pause", "{}"],
    ["/v1/agents/worker/run", "{}"],
    ["/v1/stop", "{}"],
    ["/v1/locks/break", '{"key":"deploy://api","reason":"x"}'],
    ["/logout", ""],
  ];
  for (const [path, body] of acts) {
    for (const type of ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"]) {
      const evil = await context.newPage();
      await evil.goto(origin);
      await evil.evaluate(([action, body, type]) => {
        const form = document.createElement("form");
        Object.assign(form, { method: "post", action, enctype: type });
        const field = document.createElement("input");
        Object.assign(field, { name: body.slice(0, -1) || "x", value: body.slice(-1) });
        form.append(field);
        document.body.append(form);
        form.submit();
      }, [url + path, body, type]);
      await evil.waitForLoadState();
      await evil.close();
    }
  }
  await isUntouched(`${kind}: forms`);

  const evil = await context.newPage();
  await evil.goto(origin);
  const read = await evil.evaluate(async ([url, acts]) => {
    const read = [];
    const attempt = async (what, options) => {
      try {
        const answer = await fetch(what, { credentials: "include", ...options });
        const text = await answer.text();
        if (text) read.push(`${what}: ${text.slice(0, 40)}`);
      } catch {}
    };
    for (const [path, body] of acts) {
      await attempt(url + path, { method: "POST", mode: "no-cors", body, headers: { "Content-Type": "text/plain" } });
      await attempt(url + path, { method: "POST", mode: "cors", body, headers: { "Content-Type": "application/json" } });
      await attempt(url + path, { method: "PUT", mode: "cors", body });
      navigator.sendBeacon(url + path, new Blob([body], { type: "text/plain" }));
    }
    for (const path of ["/v1/status", "/v1/history", "/", "/metrics", "/healthz"]) {
      await attempt(url + path, { mode: "cors" });
      await attempt(url + path, { mode: "no-cors" });
    }
    return read;
  }, [url, acts]);
  check(read.length === 0, `${kind}: fetch reads nothing ${read.join("; ")}`);
  await isUntouched(`${kind}: fetch and beacons`);

  const loaded = await evil.evaluate(async (url) => {
    const settled = (element, attribute, value) => new Promise((done) => {
      element.onload = () => done("loaded");
      element.onerror = () => done("refused");
      setTimeout(() => done("silent"), 2000);
      element[attribute] = value;
      if (element.tagName !== "IMG") document.body.append(element);
    });
    const image = await settled(new Image(), "src", `${url}/v1/agents/worker/run`);
    const script = await settled(document.createElement("script"), "src", `${url}/v1/status`);
    const events = await new Promise((done) => {
      const source = new EventSource(`${url}/v1/events`, { withCredentials: true });
      source.onopen = () => done("open");
      source.onerror = () => done("refused");
    });
    const socket = await new Promise((done) => {
      const socket = new WebSocket(`${url.replace("http", "ws")}/v1/events`);
      socket.onopen = () => done("open");
      socket.onerror = () => done("refused");
    });
    const frame = document.createElement("iframe");
    await settled(frame, "src", `${url}/`);
    return { image, script, events, socket, frames: window.length };
  }, url);
  check(loaded.image !== "loaded" && loaded.script !== "loaded", `${kind}: images and scripts load nothing`);
  check(loaded.events === "refused" && loaded.socket === "refused", `${kind}: no stream opens`);
  const framed = evil.frames().find((frame) => frame.url().startsWith(url));
  const shown = framed ? await framed.evaluate(() => document.body.innerText).catch(() => "") : "";
  check(!shown.includes("Bellwether"), `${kind}: no frame shows a page of ours`);
  await isUntouched(`${kind}: images, scripts, streams and frames`);
  await evil.close();
}

await page.goto(`${url}/`);
check(new URL(page.url()).pathname === "/", "the login is still there: nobody else could end it");
const inline = await page.evaluate(() => {
  const script = document.createElement("script");
  script.textContent = "window.ran = true";
  document.body.append(script);
  return window.ran === true;
});
check(!inline, "no inline script runs in a page of ours");
await page.click("button");
check(new URL(page.url()).pathname === "/login" && (await context.cookies()).length === 0, "its own page ends it");

await browser.close();
other.close();
if (failures.length) process.exit(1);
