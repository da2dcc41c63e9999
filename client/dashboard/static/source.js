// The network's state as it changes: pushed by the server, or asked for now and then where that does not work.

const RETRY_MS = 30000; // until events are tried again after the server has refused them
const FIRST_MS = 4000; // for the first event
const LOOK_MS = 1000;
const DEADLINE_MS = 5000;

export class Source {
  // seen(state), and told(connection) with "live", "polling" or "lost"
  constructor(seen, told) {
    Object.assign(this, { seen, told, events: null, polling: null, retryAt: 0, heardAt: 0, silenceMs: FIRST_MS });
  }

  // A page that nobody sees holds no connection: browsers have few for one server.
  start() {
    document.addEventListener("visibilitychange", () => (document.hidden ? this.rest() : this.listen()));
    setInterval(() => this.look(), LOOK_MS);
    if (!document.hidden) this.listen();
  }

  rest() {
    this.close();
    this.stopPolling();
  }

  close() {
    this.events?.close();
    this.events = null;
  }

  listen() {
    if (this.events || performance.now() < this.retryAt) return;
    if (typeof EventSource === "undefined") {
      this.startPolling();
      return;
    }
    const events = new EventSource("/api/events");
    this.events = events;
    this.heardAt = performance.now();
    events.onmessage = (event) => {
      this.stopPolling();
      this.receive(JSON.parse(event.data), "live");
    };
    events.onerror = () => {
      if (this.events !== events) return;
      this.startPolling();
      if (events.readyState !== EventSource.CLOSED) return; // it tries again by itself
      this.events = null;
      this.retryAt = performance.now() + RETRY_MS;
    };
  }

  // Events that have stopped without an error, as after a sleep: begin anew, and ask meanwhile.
  look() {
    if (document.hidden) return;
    if (this.events && performance.now() - this.heardAt > this.silenceMs) {
      this.close();
      this.startPolling();
    }
    this.listen();
  }

  startPolling() {
    if (this.polling) return;
    const mine = { timer: null };
    this.polling = mine;
    const poll = async () => {
      let state = null;
      try {
        const answer = await fetch("/api/state", { signal: AbortSignal.timeout(DEADLINE_MS) });
        if (answer.ok) state = await answer.json();
      } catch { /* told below */ }
      if (this.polling !== mine) return;
      if (state) this.receive(state, "polling");
      else this.told("lost");
      mine.timer = setTimeout(poll, 1000 * (this.period ?? 2));
    };
    poll();
  }

  stopPolling() {
    clearTimeout(this.polling?.timer);
    this.polling = null;
  }

  receive(state, connection) {
    this.period = state.period_s;
    if (connection === "live") {
      this.heardAt = performance.now();
      this.silenceMs = Math.max(10000, 3000 * state.period_s); // the server tells something after every poll
    }
    this.told(connection);
    this.seen(state);
  }
}
