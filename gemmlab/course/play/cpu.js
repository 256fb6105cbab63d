// What the page shows of a run: the matrices, the caches, the counts; and the controls.
"use strict";

const COLOURS = ["--a", "--b", "--c", "--copy-a", "--copy-b"];
const LEVELS = ["L1", "L2", "L3"];
let run = null, last = null;

function settingsNow() {
  const blocks = {};
  for (const name of Object.keys(rung.blocks)) blocks[name] = valueOf(name);
  return { n: valueOf("n"), size: rung.machine.number_bytes, pad: rung.nest ? valueOf("pad") : 0, blocks,
           levels: [...["L1", "L2"].map((name) => rung.caches[name][valueOf(name)].slice(1)), rung.caches.L3[0].slice(1)] };
}

function modelNow(settings) {  // bytes by the model, in the order of the levels; the keys are in the order of the controls
  const key = [settings.n, ...Object.keys(rung.blocks).map((name) => settings.blocks[name]),
               byId("L1").value, byId("L2").value].join(",");
  return rung.model[key];
}

// The pictures

const depthOf = (line) => run.caches.levels.findIndex((level) => level.sets[line % level.sets.length].some((one) => one.line === line));
const FULLNESS = { 0: 1, 1: 0.6, 2: 0.3, "-1": 0.08 };  // in L1, L2, L3, memory alone

function drawArea(canvas, area, number) {
  const width = Math.min(canvas.parentElement.clientWidth, 300), cell = Math.max(1, Math.min(12, width / area.columns));
  const rows = Math.ceil(area.rows), context = sized(canvas, cell * area.columns, cell * rows);
  const size = run.settings.size, fill = colour(COLOURS[number]), gap = cell > 4 ? 1 : 0;
  for (let row = 0; row < rows; row++)
    for (let column = 0; column < area.columns; column++) {
      const address = area.start + row * area.pitch + column * size;
      const used = last && last.area === number && address >= last.address && address < last.address + last.bytes;
      context.globalAlpha = used ? 1 : FULLNESS[depthOf(Math.floor(address / LINE))];
      context.fillStyle = used ? colour(last.write ? "--write" : "--read") : fill;
      context.fillRect(column * cell, row * cell, cell - gap, cell - gap);
    }
}

function areaOf(line) {
  return run.areas.findLastIndex((area) => line * LINE >= Math.floor(area.start / LINE) * LINE);
}

function drawLevel(canvas, level) {
  const cell = Math.max(4, Math.min(14, canvas.parentElement.clientWidth / level.ways, 220 / level.sets.length));
  const context = sized(canvas, cell * level.ways, cell * level.sets.length);
  level.sets.forEach((set, row) => {
    for (let way = 0; way < level.ways; way++) {
      const one = set[way];
      context.fillStyle = one ? colour(COLOURS[areaOf(one.line)]) : colour("--line");
      context.fillRect(way * cell, row * cell, cell - 1, cell - 1);
      if (one && one.dirty) {
        context.fillStyle = colour("--card");
        context.fillRect((way + 0.3) * cell, (row + 0.3) * cell, 0.3 * cell, 0.3 * cell);
      }
      if (one && last && one.line === last.line) {
        context.strokeStyle = colour("--ink");
        context.lineWidth = 2;
        context.strokeRect(way * cell + 1, row * cell + 1, cell - 3, cell - 3);
      }
    }
  });
}

function placeOf(touch) {
  const area = run.areas[touch.area], offset = touch.address - area.start;
  const row = Math.floor(offset / area.pitch), column = Math.floor((offset % area.pitch) / run.settings.size);
  const end = column + touch.bytes / run.settings.size - 1;
  return `${area.name}[${row}, ${end > column ? `${column} to ${end}` : column}]`;
}

function draw(...shown) {
  [run, last] = shown;
  run.areas.forEach((area, number) => {
    const figure = byId(`area-${number}`);
    if (!figure) return;
    drawArea(figure.querySelector("canvas"), area, number);
  });
  const model = modelNow(run.settings), moved = run.caches.moved;
  run.caches.levels.forEach((level, depth) => {
    drawLevel(byId(`level-${depth}`).querySelector("canvas"), level);
    const counts = [level.hits, level.broughtIn, level.writtenBack, moved[depth], Math.round(model[depth])];
    byId(`row-${depth}`).querySelectorAll("td").forEach((cell, i) => { cell.textContent = counts[i].toLocaleString("en"); });
  });
  byId("done").textContent = `${run.done.toLocaleString("en")} touches of a line${run.ended ? ", the end" : ""}`;
  const gone = run.caches.levels.map((level, depth) => (
    level.evicted.length ? `${LEVELS[depth]} gave up line ${level.evicted.join(" and ")}` : "")).filter(Boolean);
  byId("now").textContent = last === null ? "Nothing has been touched yet." : [
    `${last.write ? "Adds to" : "Reads"} ${placeOf(last)}, line ${last.line}: ${
      last.from === 0 ? "in L1" : `not in L1, from ${[...LEVELS, "memory"][last.from]}`}.`, ...gone.map((text) => `${text}.`)].join(" ");
  byId("indices").textContent = run.names.slice(3).filter((_, i) => run.block[i + 3]).map((name) => {
    const { start, extent } = run.block[run.names.indexOf(name)];
    return `${name} = ${start}${extent > 1 ? ` to ${start + extent - 1}` : ""}`;
  }).join(", ");
}

const player = new Player(() => new Run(rung, settingsNow()), draw), again = () => player.restart();
choose("n", "N", rung.sizes.map((n) => [n, n]), rung.sizes[2], again);
for (const [name, values] of Object.entries(rung.blocks)) choose(name, name, values.map((x) => [x, x]), values[1], again);
for (const name of ["L1", "L2"])
  choose(name, name, rung.caches[name].map(([bytes, sets, ways], i) => [i, `${bytes} B: ${sets} × ${ways} lines`]), 1, again);
if (rung.nest) choose("pad", "padding of a row", rung.pads.map((pad) => [pad, `${pad} numbers`]), 0, again);
player.start();
checked((settings) => {
  const done = new Run(rung, settings).finish();
  return [done.done, ...done.caches.moved];
});
