// Requests to the dashboard's own server; every fault is one sentence.

import { element, toast } from "./dom.js";

const DEADLINE_MS = 30000;

async function ask(path, options = {}) {
  let answer;
  try {
    answer = await fetch(path, { ...options, signal: AbortSignal.timeout(DEADLINE_MS) });
  } catch {
    throw new Error("The dashboard's server does not answer. Is it still running?");
  }
  if (answer.ok || answer.status === 304) return answer;
  throw new Error(await reason(answer));
}

async function reason(answer) {
  const text = await answer.text();
  try {
    const detail = JSON.parse(text).detail;
    if (typeof detail === "string") return detail;
  } catch { /* it is plain text */ }
  return answer.status === 403 && text ? text.trim() : `The server answered ${answer.status}.`;
}

export const getJson = async (path) => (await ask(path)).json();

export async function act(name, body) {
  const options = { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
  return (await (await ask(`/api/actions/${name}`, options)).json()).said;
}

// A link to a file: fetched first, so that a fault can be told in words.
export function fileLink(path, attributes, text) {
  const link = element("a", { class: "button", href: path, ...attributes }, text);
  link.onclick = async (event) => {
    event.preventDefault();
    try {
      const answer = await ask(path);
      const name = /filename="([^"]+)"/.exec(answer.headers.get("content-disposition") ?? "")?.[1] ?? "file";
      const url = URL.createObjectURL(await answer.blob());
      element("a", { href: url, download: name }).click();
      setTimeout(() => URL.revokeObjectURL(url), 60000);
    } catch (fault) {
      toast(fault.message, true);
    }
  };
  return link;
}

// The picture of a map: null if it is the one with this tag. Where there is none yet, the server says why.
export async function getPicture(number, layer, box, knownTag) {
  const query = new URLSearchParams({ layer, ...(box ? { box: box.join(",") } : {}) });
  // Not through the browser's cache: it would keep every part that anybody ever looked at.
  const known = knownTag ? { headers: { "if-none-match": knownTag } } : {};
  const answer = await ask(`/api/agents/${number}/picture?${query}`, { cache: "no-store", ...known });
  if (answer.status === 304) return null;
  const tag = answer.headers.get("etag");
  if (tag === null) throw new Error((await answer.json()).detail);
  const numbers = (name) => answer.headers.get(name).split(",").map(Number);
  return {
    tag,
    box: numbers("delbo-box"),
    range: numbers("delbo-range"),
    round: Number(answer.headers.get("delbo-round")),
    bitmap: await createImageBitmap(await answer.blob()),
  };
}
