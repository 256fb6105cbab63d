// What the page of a GPU rung shows of a run: the matrices, the banks of local memory, the waves, the counts.
"use strict";

const FILLS = ["--a", "--b", "--c"];
const UNITS = [4, 8, 16, 32];  // multiprocessors, each with one work-group at a time

function settingsNow() {
  const parameters = {};
  for (const name of Object.keys(rung.parameters)) parameters[name] = valueOf(name);
  return { n: valueOf("n"), pad: valueOf("pad-of-row"), parameters };
}

const modelNow = (run) => rung.model[keyOf(rung, run.settings)][rung.sizes.indexOf(run.settings.n)];
const isIn = (last, space, address) => last && last.space === space
  && last.lanes.some((lane) => address >= lane.address && address < lane.address + last.bytes);

function drawArea(run, last, canvas, area, number) {
  const width = Math.min(canvas.parentElement.clientWidth, 300), cell = Math.max(1, Math.min(12, width / area.columns));
  const context = sized(canvas, cell * area.columns, cell * area.rows), gap = cell > 4 ? 1 : 0, fill = colour(FILLS[number]);
  const mine = last && last.space === "global" && last.lanes.some(({ address }) => areaOf(run, address) === area);
  for (let row = 0; row < area.rows; row++)
    for (let column = 0; column < area.columns; column++) {
      const address = area.start + row * area.pitch + column * rung.bytes, now = mine && isIn(last, "global", address);
      context.globalAlpha = now ? 1 : run.touched.has(address) ? 0.55 : 0.15;
      context.fillStyle = now ? colour(last.write ? "--write" : "--read") : fill;
      context.fillRect(column * cell, row * cell, cell - gap, cell - gap);
    }
}

const areaOf = (run, address) => run.areas.findLast((area) => address >= area.start);

function drawBanks(run, last) {
  const words = run.kernel.localBytes / WORD, rows = Math.ceil(words / BANKS), canvas = byId("banks").querySelector("canvas");
  const cell = Math.max(3, Math.min(16, canvas.parentElement.clientWidth / BANKS, 420 / rows)), starts = run.kernel.localStarts;
  const context = sized(canvas, cell * BANKS, cell * rows), now = last && last.space === "local";
  const crowded = new Set();
  if (now) for (const some of last.words.values()) if (some.size > 1) some.forEach((word) => crowded.add(word));
  for (let word = 0; word < words; word++) {
    const used = now && isIn(last, "local", word * WORD), array = starts.findLastIndex((start) => word * WORD >= start);
    context.globalAlpha = used ? 1 : 0.3;
    context.fillStyle = colour(used ? (crowded.has(word) ? "--conflict" : last.write ? "--write" : "--read") : FILLS[array]);
    context.fillRect((word % BANKS) * cell, Math.floor(word / BANKS) * cell, cell - 1, cell - 1);
  }
  byId("passes").textContent = now
    ? `${plural(last.passes, "pass", "passes")}${last.passes > last.least ? ` where ${last.least} would do without conflicts` : ", no conflict"}.` : "";
}

function drawWaves(run, last) {
  const units = valueOf("units"), waves = Math.ceil(run.groups / units), canvas = byId("waves").querySelector("canvas");
  const cell = Math.max(2, Math.min(18, canvas.parentElement.clientWidth / units, 360 / waves));
  const context = sized(canvas, cell * units, cell * waves), at = last ? last.number : -1;
  for (let place = 0; place < units * waves; place++) {
    const idle = place >= run.groups, before = place < at || run.ended;
    context.globalAlpha = idle ? 0.25 : place === at && !run.ended ? 1 : before ? 0.8 : 0.3;
    context.fillStyle = colour(idle ? "--line" : place === at && !run.ended ? "--write" : "--c");
    context.fillRect((place % units) * cell, Math.floor(place / units) * cell, cell - 1, cell - 1);
  }
  const inLast = run.groups - (waves - 1) * units;
  byId("wave").textContent = `${plural(run.groups, "work-group")} of ${run.group[0] * run.group[1]} work-items in ${plural(waves, "wave")} on ${
    units} multiprocessors; ${waves > 1 ? "the last" : "it"} has ${plural(inLast, "work-group")}: ${
    Math.round(100 * run.groups / (units * waves))} % of the places are filled.`;
}

const plural = (count, one, more = `${one}s`) => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;

function placesOf(run, { lanes, bytes, space }) {
  if (space === "local") return "local memory";
  const area = areaOf(run, lanes[0].address), rows = new Set(), columns = new Set();
  for (const { address } of lanes) {
    const offset = address - area.start;
    rows.add(Math.floor(offset / area.pitch));
    for (let i = 0; i < bytes; i += rung.bytes) columns.add(((offset + i) % area.pitch) / rung.bytes);
  }
  const range = (some) => {
    const [x, y] = [Math.min(...some), Math.max(...some)];
    return x === y ? x : some.size > y - x ? `${x} to ${y}` : `${some.size} of ${x} to ${y}`;
  };
  return `${area.name}[${range(rows)}, ${range(columns)}]`;
}

function draw(run, last) {
  run.areas.forEach((area, number) => drawArea(run, last, byId(`area-${number}`).querySelector("canvas"), area, number));
  const hasLocal = run.kernel.localBytes > 0, [global, local] = modelNow(run), { counts } = run;
  byId("local-part").hidden = byId("row-local").hidden = !hasLocal;
  if (hasLocal) drawBanks(run, last);
  drawWaves(run, last);
  const rows = {
    global: [counts.global.accesses, counts.global.bytes, global, `${(SECTOR * counts.global.sectors).toLocaleString("en")} B`, `${counts.global.least.toLocaleString("en")} B`],
    local: [counts.local.accesses, counts.local.bytes, local, plural(counts.local.passes, "pass", "passes"), plural(counts.local.least, "pass", "passes")],
  };
  for (const [space, cells] of Object.entries(rows))
    byId(`row-${space}`).querySelectorAll("td").forEach((cell, i) => { cell.textContent = cells[i].toLocaleString("en"); });
  byId("done").textContent = `${plural(run.done, "access", "accesses")} of a warp${run.ended ? ", the end" : ""}`;
  byId("now").textContent = last === null ? "Nothing has been read yet." :
    `Work-group ${last.number + 1} of ${run.groups}, warp ${last.warp + 1}: ${plural(last.lanes.length, "work-item")} ${
      last.write ? "write" : "read"} ${plural(last.bytes / WORD, "number")} each, ${last.write ? "to" : "from"} ${placesOf(run, last)}${
      last.space === "global" ? `, in ${plural(last.sectors, "sector")} of 32 bytes` : ""}.`;
}

const player = new Player(() => new GridRun(rung, settingsNow()), draw), again = () => player.restart();
choose("n", "N", rung.sizes.map((n) => [n, n]), rung.sizes[2], again);
for (const [name, values] of Object.entries(rung.parameters))
  choose(name, name, values.map((x) => [x, x]), values[Math.floor((values.length - 1) / 2)], again);
choose("pad-of-row", "padding of a row", rung.pads.map((pad) => [pad, `${pad} numbers`]), 0, again);
choose("units", "multiprocessors", UNITS.map((x) => [x, x]), UNITS[1], () => player.draw(player.run, player.last));
player.start();
checked((settings) => {
  const { done, counts, checksum } = new GridRun(rung, settings).finish();
  return [done, checksum, counts.global.bytes, counts.global.sectors, counts.local.bytes, counts.local.passes];
});
