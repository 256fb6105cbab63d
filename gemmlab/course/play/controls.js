// What every moving picture has: its data, buttons and keys that move a run on, canvases.
"use strict";

const rung = JSON.parse(document.getElementById("rung").textContent);
const byId = (id) => document.getElementById(id);
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const valueOf = (id) => Number(byId(id).selectedOptions[0].value);
const SPEEDS = [1, 4, 16, 64, 256, 1024];  // steps in a tenth of a second

// A canvas in points of the screen, however dense these are.
function sized(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

function choose(id, label, values, chosen, changed) {
  const options = values.map(([value, text]) => `<option value="${value}"${value === chosen ? " selected" : ""}>${text}</option>`);
  byId("controls").insertAdjacentHTML("beforeend", `<label>${label} <select id="${id}">${options.join("")}</select></label>`);
  byId(id).addEventListener("change", changed);
}

// Plays a run: `begin` makes one, `draw` shows it with its last step.
class Player {
  constructor(begin, draw) {
    Object.assign(this, { begin, draw, timer: null });
  }
  restart() {
    this.stop();
    this.run = this.begin();
    this.last = null;
    this.draw(this.run, this.last);
  }
  advance(steps) {
    for (let i = 0; i < steps; i++) {
      const next = this.run.step();
      if (next === null) { this.stop(); break; }
      this.last = next;
    }
    this.draw(this.run, this.last);
  }
  stop() {
    clearInterval(this.timer);
    this.timer = null;
    byId("play").textContent = "Play";
  }
  jump(steps) { this.stop(); this.advance(steps); }
  play() {
    if (this.timer) { this.stop(); return; }
    if (this.run.ended) this.restart();
    byId("play").textContent = "Pause";
    this.timer = setInterval(() => this.advance(SPEEDS[Number(byId("speed").value)]), 100);
  }
  start() {
    const acts = { play: () => this.play(), step: () => this.jump(1), row: () => this.jump(100),
                   end: () => this.jump(Infinity), again: () => this.restart() };
    for (const [id, act] of Object.entries(acts)) byId(id).addEventListener("click", act);
    document.addEventListener("keydown", (event) => {
      if (event.target.matches("select, input, button, a") || event.ctrlKey || event.metaKey || event.altKey) return;
      const act = { " ": acts.play, ArrowRight: event.shiftKey ? acts.row : acts.step, End: acts.end, Home: acts.again }[event.key];
      if (act) { event.preventDefault(); act(); }
    });
    const again = () => this.draw(this.run, this.last);
    addEventListener("resize", again);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) byId("speed").value = SPEEDS.length - 1;
    this.restart();
  }
}

// For tests: settings after "#check=" are run to their end, and what `counted` says of each stands in the page.
function checked(counted) {
  if (!location.hash.startsWith("#check=")) return;
  const asked = JSON.parse(decodeURIComponent(location.hash.slice("#check=".length)));
  byId("checked").textContent = JSON.stringify(asked.map(counted));
}
