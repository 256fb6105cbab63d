// A rung's loops, given as data, and the caches that they run on. The same as gemmlab/roofline/replay.h and cache.h, and
// checked against them: this file knows no rung.
"use strict";

const LINE = 64, PAGE = 4096;
const roundUp = (x, step) => Math.ceil(x / step) * step;

// What a loop's step may be: extents, blocks, the strip, the tile.
function parametersOf(settings, machine) {
  const { n, size, blocks } = settings;
  return { m: n, n, k: n, bs_r: 1, bs_c: n, bs_k: n, strip: machine.strip_bytes / size, tile_rows: machine.tile_rows,
           tile_columns: machine.tile_bytes / size, ...blocks };
}

// The nest as a list: a step for each loop and access, with the number of the step after its body.
function stepsOf(nest, parameters) {
  const steps = [], indices = { m: 0, n: 1, k: 2 }, by = { ...parameters }, over = {}, names = ["m", "n", "k"];
  const add = (one) => {
    const step = { index: -1, matrix: -1 };
    steps.push(step);
    if (one.body) {
      if (!(one.index in indices)) { indices[one.index] = names.length; names.push(one.index); }
      by[one.index] = typeof one.step === "number" ? one.step : parameters[one.step];
      over[one.index] = one.over;
      Object.assign(step, { index: indices[one.index], over: indices[one.over], by: by[one.index],
                            moved: one.moved ? by[one.over] : 0 });
      one.body.forEach(add);
    } else {
      Object.assign(step, { matrix: "abc".indexOf(one.matrix), row: indices[one.row], column: indices[one.column],
        piece: one.piece, moved: one.moved ? by[one.column] : 0, writes: one.writes,
        first: one.first ? indices[one.first] : -1, beside: one.beside ? "abc".indexOf(one.beside[0]) : -1,
        besideRow: one.beside ? indices[one.beside[1]] : 0, panel: one.packed ? by[one.column] : 0,
        rows: one.packed ? indices[over[one.row]] : 0, columns: one.packed ? indices[over[one.column]] : 0 });
    }
    step.end = steps.length;
  };
  add(nest);
  return { steps, names };
}

// A, B and C on separate pages, their rows `pad` numbers longer than they need to be, and copies of blocks behind them.
function layoutOf(p, size, pad) {
  const inPanels = (extent, depth, width) => Math.ceil(extent / width) * width * depth;
  const rows = [p.m, p.k, p.m], columns = [p.k, p.n, p.n], areas = [];
  let start = 0;
  for (let i = 0; i < 3; i++) {
    const pitch = (columns[i] + pad) * size;
    areas.push({ name: "ABC"[i], start, pitch, rows: rows[i], columns: columns[i], bytes: rows[i] * pitch });
    start += roundUp(rows[i] * pitch, PAGE);
  }
  const least = (x, y) => Math.min(p[x], p[y]);
  const copies = [["copy of A", inPanels(least("bs_r", "m"), least("bs_k", "k"), p.tile_rows), p.tile_rows],
                  ["copy of B", inPanels(least("bs_c", "n"), least("bs_k", "k"), p.tile_columns), p.tile_columns]];
  for (const [name, numbers, width] of copies) {
    areas.push({ name, start, pitch: width * size, rows: numbers / width, columns: width, bytes: numbers * size });
    start += roundUp(numbers * size, PAGE);
  }
  return areas;
}

// Every touch of a line, in order: which area, which bytes are meant, and whether it is a store.
function* touchesOfLoops(steps, p, areas, size, block) {
  const at = (matrix, row, column) => areas[matrix].start + row * areas[matrix].pitch + column * size;
  const leftOut = (s) => s.first >= 0 && block[s.first].start !== 0;
  const targetOf = (s) => {
    if (s.panel) {
      const rows = block[s.rows], before = (block[s.column].start - block[s.columns].start) * rows.extent;
      const address = areas[3 + s.matrix].start + (before + (block[s.row].start - rows.start) * s.panel) * size;
      return { area: 3 + s.matrix, address, bytes: s.panel * size, write: s.writes, beside: -1 };
    }
    const column = block[s.column];
    const start = s.moved ? Math.max(0, Math.min(column.start, p.n - s.moved)) : column.start;
    const extent = s.piece ? (s.moved ? Math.min(s.moved, p.n) : column.extent) : 1;
    return { area: s.matrix, address: at(s.matrix, block[s.row].start, start), bytes: extent * size, write: s.writes,
             besideArea: s.beside, beside: s.beside < 0 ? -1 : at(s.beside, block[s.besideRow].start, start) };
  };
  function* go(t) {
    const end = Math.floor((t.address + t.bytes - 1) / LINE);
    let line = Math.floor(t.address / LINE);
    if (t.beside < 0) {
      for (; line <= end; line++) yield { line, write: t.write, area: t.area, address: t.address, bytes: t.bytes };
      return;
    }
    const besideEnd = Math.floor((t.beside + t.bytes - 1) / LINE);
    for (let from = Math.floor(t.beside / LINE); from <= besideEnd || line <= end; from++, line++) {
      if (from <= besideEnd) yield { line: from, write: false, area: t.besideArea, address: t.beside, bytes: t.bytes };
      if (line <= end) yield { line, write: true, area: t.area, address: t.address, bytes: t.bytes };
    }
  }
  function* run(from, to) {
    for (let i = from; i < to; i = steps[i].end) {
      const s = steps[i];
      if (s.matrix >= 0) {
        if (!leftOut(s)) yield* go(targetOf(s));
        continue;
      }
      let over = block[s.over];
      if (s.moved) over = { start: Math.max(0, Math.min(over.start, p.m - s.moved)), extent: Math.min(s.moved, p.m) };
      for (let done = 0; done < over.extent; done += s.by) {
        block[s.index] = { start: over.start + done, extent: Math.min(s.by, over.extent - done) };
        yield* run(i + 1, s.end);
      }
    }
  }
  yield* run(0, steps.length);
}

// The same of a kernel that has recorded its accesses: address, bytes, store; three numbers each.
function* touchesOfRecord(recorded, areas) {
  for (let i = 0; i < recorded.length; i += 3) {
    const [address, bytes, write] = recorded.slice(i, i + 3);
    const area = areas.findLastIndex((one) => address >= one.start);
    for (let line = Math.floor(address / LINE); line <= Math.floor((address + bytes - 1) / LINE); line++)
      yield { line, write: write === 1, area, address, bytes };
  }
}

// Set-associative caches, least recently used out first, write-back, write-allocate. The newest line of a set is first.
class Caches {
  constructor(levels) {
    this.levels = levels.map(([sets, ways]) => (
      { ways, sets: Array.from({ length: sets }, () => []), hits: 0, broughtIn: 0, writtenBack: 0, evicted: [] }));
  }
  find(level, line) {
    const set = level.sets[line % level.sets.length], place = set.findIndex((one) => one.line === line);
    return [set, place];
  }
  renew(set, place) {
    const [one] = set.splice(place, 1);
    set.unshift(one);
    return one;
  }
  makeRoom(depth, set, line) {
    const level = this.levels[depth];
    if (set.length === level.ways) {
      const oldest = set[set.length - 1];
      this.clean(depth, oldest);
      set.pop();
      level.evicted.push(oldest.line);
    }
    const one = { line, dirty: false };
    set.unshift(one);
    return one;
  }
  clean(depth, one) {
    if (!one.dirty) return;
    one.dirty = false;
    this.levels[depth].writtenBack++;
    if (depth + 1 < this.levels.length) this.takeLine(depth + 1, one.line);
  }
  takeLine(depth, line) {  // from the level above: nothing has to be brought in for it
    const [set, place] = this.find(this.levels[depth], line);
    (place < 0 ? this.makeRoom(depth, set, line) : this.renew(set, place)).dirty = true;
  }
  bringIn(depth, line) {
    const level = this.levels[depth], [set, place] = this.find(level, line);
    if (place >= 0) {
      level.hits++;
      return [this.renew(set, place), depth];
    }
    level.broughtIn++;
    const from = depth + 1 < this.levels.length ? this.bringIn(depth + 1, line)[1] : depth + 1;
    return [this.makeRoom(depth, set, line), from];
  }
  touch(line, write) {  // the level that had it: 0 is the nearest, and the number of levels is memory
    for (const level of this.levels) level.evicted = [];
    const [one, from] = this.bringIn(0, line);
    one.dirty ||= write;
    return from;
  }
  finish() {
    this.levels.forEach((level, depth) => level.sets.flat().sort((x, y) => x.line - y.line)
      .forEach((one) => this.clean(depth, one)));
  }
  get moved() { return this.levels.map((level) => (level.broughtIn + level.writtenBack) * LINE); }
}

// A run of a rung: its touches so far, one after the other.
class Run {
  constructor(rung, settings) {
    this.settings = settings;
    const parameters = parametersOf(settings, rung.machine);
    this.areas = layoutOf(parameters, settings.size, settings.pad);
    this.caches = new Caches(settings.levels);
    this.names = [];
    this.block = [];
    this.done = 0;
    if (rung.nest) {
      const { steps, names } = stepsOf(rung.nest, parameters);
      this.names = names;
      this.block = ["m", "n", "k"].map((name) => ({ start: 0, extent: parameters[name] }));
      this.touches = touchesOfLoops(steps, parameters, this.areas, settings.size, this.block);
    } else {
      const recorded = rung.recorded[settings.n];
      const last = this.areas[2];
      this.areas = [...this.areas.slice(0, 3),
        { name: "workspace", start: last.start + roundUp(last.bytes, PAGE), pitch: LINE, columns: LINE / settings.size,
          rows: recorded.workspace_lines, bytes: LINE * recorded.workspace_lines }];
      this.touches = touchesOfRecord(recorded.accesses, this.areas);
    }
  }
  step() {  // the next touch with the level that had it; null at the end, when what was written goes to memory
    const { value, done } = this.touches.next();
    if (done) {
      if (!this.ended) this.caches.finish();
      this.ended = true;
      return null;
    }
    this.done++;
    return { ...value, from: this.caches.touch(value.line, value.write) };
  }
  finish() {
    while (this.step() !== null);
    return this;
  }
}
