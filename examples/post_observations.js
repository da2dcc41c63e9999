// node examples/post_observations.js http://127.0.0.1:8001 [points.csv [client]]        (Node 18 or newer)
// The csv has a line of names, then x1,x2,...,y in every line; without one a few points are made up. A batch is marked
// with a client and a number: sent again after a lost answer it is stored once. So run this again as often as you like.
// Where the agent asks for tokens, DELBO_TOKENS names a folder with the file ingest.
const fs = require("node:fs");
const folder = process.env.DELBO_TOKENS;
const token = folder && fs.readFileSync(`${folder}/ingest`, "utf8").split("\n").find((line) => /^[^#]/.test(line)).trim();
const headers = { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) };

async function post(url, client, sequence, observations) {
  const address = `${url}/v1/observations?client=${encodeURIComponent(client)}&sequence=${sequence}`;
  const request = { method: "POST", headers, body: JSON.stringify(observations) };
  for (let pause = 0.1; ; pause = Math.min(2 * pause, 2)) {
    const answer = await fetch(address, { ...request, signal: AbortSignal.timeout(30_000) }).catch((fault) => fault);
    if (answer.ok) return answer.json();
    const refusal = answer.status ? `${answer.status} ${await answer.text()}` : answer.message;
    if (answer.status && ![429, 502, 503, 504].includes(answer.status)) throw new Error(refusal);
    const wait = (answer.status && Number(answer.headers.get("Retry-After"))) || pause;
    console.error(`post_observations: ${refusal}, trying again in ${wait} s`);
    await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
  }
}

async function main(url, csv, client = "example-js") {
  const lines = csv && fs.readFileSync(csv, "utf8").trim().split("\n").slice(1);
  const madeUp = (n) => [n % 6, Math.floor(n / 6), Number(n % 6 > Math.floor(n / 6))];
  const rows = lines ? lines.map((line) => line.split(",").map(Number)) : [...Array(30).keys()].map(madeUp);
  let sequence = 0;
  for (let begin = 0; begin < rows.length; begin += 10) {
    const batch = rows.slice(begin, begin + 10);
    const observations = { x: batch.map((row) => row.slice(0, -1)), y: batch.map((row) => row.at(-1)) };
    console.log(await post(url, client, sequence++, observations));
  }
  await post(url, client, sequence, { end: true });
  console.log(`${rows.length} observations of ${client} are stored`);
}

main(...process.argv.slice(2)).catch((fault) => process.exit(console.error(`post_observations: ${fault.message}`) ?? 1));
