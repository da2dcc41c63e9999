// The network's state as it changes: pushed by the server, or asked for now and then where that does not work.

const RETRY_MS = 30000;
const SILENCE_MS = 25000; // the server says every 15 s that it is still there, if only in a comment
const FIRST_MS = 4000;

export class Source {
  // seen(state), and told(connection) with "live", "polling" or "lost"
  constructor(seen, told) {
    Object.assign(this, { seen, told, timer: null, events: null, heard: 0 });
  }

  start() {
    this.listen();
    setTimeout(() => this.heard || this.poll(), FIRST_MS);
    setInterval(() => {
      // Comments are not told to scripts: so after a silence the state is asked for, and that says how things are.
      if (this.timer === null && performance.now() - this.heard > SILENCE_MS) this.poll(true);
    }, SILENCE_MS / 4);
  }

  listen() {
    if (typeof EventSource === "undefined") return this.poll();
    const events = new EventSource("/api/events");
    this.events = events;
    events.onmessage = (event) => {
      clearTimeout(this.timer);
      this.timer = null;
      this.receive(JSON.parse(event.data), "live");
    };
    events.onerror = () => {
      if (this.timer === null) this.poll();
      if (events.readyState === EventSource.CLOSED && this.events === events) {
        this.events = null;
        setTimeout(() => this.listen(), RETRY_MS);
      }
    };
  }

  async poll(once = false) {
    clearTimeout(this.timer);
    try {
      const answer = await fetch("/api/state", { signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error(String(answer.status));
      this.receive(await answer.json(), once ? "live" : "polling");
    } catch {
      this.told("lost");
    }
    if (!once) this.timer = setTimeout(() => this.poll(), 1000 * (this.period ?? 2));
  }

  receive(state, connection) {
    this.heard = performance.now();
    this.period = state.period_s;
    this.told(connection);
    this.seen(state);
  }
}
