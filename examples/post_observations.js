// Post observations to an agent, each stored exactly once, however often this is run or broken off. Node 18 or newer:
//
//   node examples/post_observations.js http://127.0.0.1:8001 [points.csv [client]]
//
// The csv has a line of names, then x1,x2,...,y in every line. Without one a few points are made up. A client is whoever
// sends these points: for others take another name. In a browser, on a page of the agent's origin, `post` works as it is.

async function post(url, client, sequence, observations) {
  const address = `${url}/v1/observations?client=${encodeURIComponent(client)}&sequence=${sequence}`;
  const request = { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(observations) };
  for (let pause = 0.1; ; pause = Math.min(2 * pause, 2)) {
    let refusal, wait;
    try {
      const answer = await fetch(address, { ...request, signal: AbortSignal.timeout(30_000) });
      if (answer.ok) return await answer.json();
      refusal = `${answer.status} ${await answer.text()}`;
      wait = [429, 502, 503, 504].includes(answer.status) && (Number(answer.headers.get("Retry-After")) || pause);
    } catch (fault) {
      refusal = fault.message; // nobody knows whether it arrived: the same mark again is stored once
      wait = pause;
    }
    if (!wait) throw new Error(refusal);
    console.error(`post_observations: ${refusal}, trying again in ${wait} s`);
    await new Promise((resolve) => setTimeout(resolve, 1000 * wait));
  }
}

async function main(url, csv, client = "example-js") {
  const text = csv && (await require("node:fs/promises").readFile(csv, "utf8"));
  const rows = csv
    ? text.trim().split("\n").slice(1).map((line) => line.split(",").map(Number))
    : [...Array(30).keys()].map((n) => [n % 6, Math.floor(n / 6), Number(n % 6 > Math.floor(n / 6))]);
  let sequence = 0;
  for (let begin = 0; begin < rows.length; begin += 10) {
    const batch = rows.slice(begin, begin + 10);
    const observations = { x: batch.map((row) => row.slice(0, -1)), y: batch.map((row) => row.at(-1)) };
    console.log(await post(url, client, sequence++, observations));
  }
  await post(url, client, sequence, { end: true });
  console.log(`${rows.length} observations of ${client} are stored`);
}

main(...process.argv.slice(2)).catch((fault) => {
  console.error(`post_observations: ${fault.message}`);
  process.exitCode = 1;
});
